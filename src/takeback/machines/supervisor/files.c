int files_main(int argc, char **argv);
int files_main(int argc, char **argv) { (void)argc; (void)argv; return 2; }
