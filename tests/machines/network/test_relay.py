"""Root inside can write to the channel itself: no frame may hurt the host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from takeback.machines.channel.frames import Frame, Type, encode_frame
from takeback.machines.network.relay import CONNECTIONS_MAX, WINDOW, GuestStream, Relay

GUEST = 1 << 31


class Sink:
    """A channel that takes everything."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send_frames(self, frames: Sequence[bytes]) -> None:
        self.frames += frames

    async def room(self) -> None:
        pass


FRAMES = st.tuples(
    st.integers(96, 127),
    st.integers(0, 15),
    st.sampled_from([0, 1, GUEST, GUEST + 1, GUEST + 2]),
    st.binary(max_size=40),
)


@given(st.lists(FRAMES, max_size=60))
def test_any_frames_are_taken_without_an_error(frames: list[Frame]) -> None:
    async def work() -> None:
        sink = Sink()
        relay = Relay(sink, lambda stream: None)
        for frame in frames:
            relay.receive(frame)
        assert len(relay) <= 3
        relay.reset("done")

    asyncio.run(work())


def test_a_guest_that_sends_more_than_its_window_is_hung_up_on() -> None:
    async def work() -> None:
        sink = Sink()
        streams: list[GuestStream] = []
        relay = Relay(sink, streams.append)
        relay.receive((Type.ACCEPTED_CONNECTION, 0, GUEST, b""))
        for _ in range(WINDOW // 4000 + 2):
            relay.receive((Type.GUEST_BYTES, 0, GUEST, bytes(4000)))
        assert sink.frames == [encode_frame(Type.HANGUP, GUEST)]
        assert len(relay) == 0 and streams[0].over

    asyncio.run(work())


def test_connections_beyond_the_limit_are_turned_away_without_end() -> None:
    async def work() -> None:
        sink = Sink()
        relay = Relay(sink, lambda stream: None)
        for number in range(10 * CONNECTIONS_MAX):
            relay.receive((Type.ACCEPTED_CONNECTION, 0, GUEST + number, b""))
        assert len(relay) == CONNECTIONS_MAX
        assert len(sink.frames) <= CONNECTIONS_MAX

    asyncio.run(work())


def test_frames_about_connections_that_are_not_there_are_answered_with_nothing() -> None:
    async def work() -> None:
        sink = Sink()
        relay = Relay(sink, lambda stream: None)
        for kind in range(97, 128):
            relay.receive((kind, 0, GUEST, b"x"))
        assert sink.frames == [] and len(relay) == 0

    asyncio.run(work())
