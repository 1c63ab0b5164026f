"""gVisor (`runsc`) as an engine of machines."""
