"""What a sandbox costs, in integer micro-dollars, from what was measured and a table of prices.

Does not cover: measuring (`keeper`), or where the prices come from (`config`). The formulas are those of the hosted
service that made this known: CPU seconds used, GiB (2**30) reserved while running, decimal GB stored for 30-day months.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from takeback.errors import UsageError

_HOUR = 3600
_MONTH = 30 * 24 * _HOUR
_GIB = 2**30
_GB = 10**9


@dataclass(frozen=True)
class Prices:
    """Micro-dollars: per hour of one CPU used, per GiB-hour of memory, per GB-month stored, per GB sent."""

    cpu_hour: int = 25_000
    memory_gib_hour: int = 7_500
    stored_gb_month: int = 80_000
    sent_gb: int = 0

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Prices:
        """Read a price table; what is not named keeps its default. Raises UsageError."""
        known = {field.name for field in fields(cls)}
        for name, value in table.items():
            if name not in known:
                raise UsageError(detail=f"no such price: {name}; there are {', '.join(sorted(known))}")
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(detail=f"the price {name} is a whole number of micro-dollars, not {value!r}")
        return cls(**table)


@dataclass(frozen=True)
class Used:
    """What was used: CPU in seconds, memory and stored in byte-seconds, sent and received outside in bytes."""

    cpu_s: float = 0.0
    memory_byte_s: float = 0.0
    stored_byte_s: float = 0.0
    sent: int = 0
    received: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(
            self.cpu_s + other.cpu_s,
            self.memory_byte_s + other.memory_byte_s,
            self.stored_byte_s + other.stored_byte_s,
            self.sent + other.sent,
            self.received + other.received,
        )

    def to_dict(self) -> dict[str, float | int]:
        """Return the amounts in the units of the prices: seconds, GiB-hours, GB-months of 30 days, bytes."""
        return {
            "cpuSeconds": round(self.cpu_s, 3),
            "memoryGiBHours": round(self.memory_byte_s / (_GIB * _HOUR), 9),
            "storedGBMonths": round(self.stored_byte_s / (_GB * _MONTH), 9),
            "sentBytes": self.sent,
            "receivedBytes": self.received,
        }


@dataclass(frozen=True)
class Cost:
    """Micro-dollars by what they are for, each rounded to the nearest; `total` is their sum."""

    cpu: int = 0
    memory: int = 0
    stored: int = 0
    sent: int = 0

    @property
    def total(self) -> int:
        return self.cpu + self.memory + self.stored + self.sent

    def to_dict(self) -> dict[str, int]:
        """Return the parts and `totalMicros`."""
        parts = {field.name + "Micros": getattr(self, field.name) for field in fields(self)}
        return {**parts, "totalMicros": self.total}


def cost(used: Used | Iterable[Used], prices: Prices | None = None) -> Cost:
    """Return the price of what was used, of several together when several are given."""
    from fractions import Fraction  # it loads decimal: longer than a sandbox takes to start a command

    prices = prices or Prices()
    total = used if isinstance(used, Used) else sum(used, Used())

    def micros(amount: float, price: int, unit: int) -> int:
        return round(Fraction(amount) * price / unit)

    return Cost(
        cpu=micros(total.cpu_s, prices.cpu_hour, _HOUR),
        memory=micros(total.memory_byte_s, prices.memory_gib_hour, _GIB * _HOUR),
        stored=micros(total.stored_byte_s, prices.stored_gb_month, _GB * _MONTH),
        sent=micros(total.sent, prices.sent_gb, _GB),
    )


def dollars(micros: int) -> str:
    """Return micro-dollars as text, four digits after the point or as many as it takes not to say 0."""
    text = f"{micros / 1_000_000:.4f}"
    return f"${text}" if micros == 0 or float(text) else f"${micros / 1_000_000:.6f}"
