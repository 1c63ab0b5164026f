/* A ring of bytes with one bit a byte for its stream: bounded, however the streams alternate. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

enum { RING_FIRST = 4096 };

static bool stream_at(const struct ring *ring, size_t at) {
    return ring->streams[at / 8] >> (at % 8) & 1;
}

static void mark(struct ring *ring, size_t at, size_t count, bool is_stderr) {
    while (count > 0) {
        if (at % 8 == 0 && count >= 8) {
            memset(ring->streams + at / 8, is_stderr ? 0xff : 0, count / 8);
            at += count / 8 * 8;
            count %= 8;
            continue;
        }
        uint8_t bit = (uint8_t)(1 << at % 8);
        ring->streams[at / 8] = (uint8_t)(is_stderr ? ring->streams[at / 8] | bit : ring->streams[at / 8] & ~bit);
        at++;
        count--;
    }
}

static bool grow(struct ring *ring) {
    size_t size = ring->size ? ring->size * 4 : RING_FIRST;
    struct ring bigger = {malloc(size), calloc(size / 8, 1), size, ring->first, ring->first};
    if (!bigger.data || !bigger.streams) {
        ring_free(&bigger);
        return false;
    }
    while (bigger.total < ring->total) {
        size_t at = bigger.total & (size - 1);
        bool is_stderr;
        size_t got = ring_copy(ring, bigger.total, size - at, bigger.data + at, &is_stderr);
        mark(&bigger, at, got, is_stderr);
        bigger.total += got;
    }
    ring_free(ring);
    *ring = bigger;
    return true;
}

uint8_t *ring_space(struct ring *ring, size_t want, size_t *room) {
    size_t used = (size_t)(ring->total - ring->first);
    size_t little = want < RING_FIRST ? want : RING_FIRST;
    bool grown = true;
    while (grown && ring->size < RING_MAX && ring->size - used < little)
        grown = grow(ring);
    if (ring->size == 0)
        return NULL;
    if (grown && ring->size < RING_MAX && want > ring->size - used)
        want = ring->size - used; /* more will be made before anything is given up */
    size_t at = ring->total & (ring->size - 1);
    *room = ring->size - at < want ? ring->size - at : want;
    return ring->data + at;
}

void ring_filled(struct ring *ring, size_t count, bool is_stderr) {
    mark(ring, ring->total & (ring->size - 1), count, is_stderr);
    ring->total += count;
    if (ring->total - ring->first > ring->size)
        ring->first = ring->total - ring->size;
}

size_t ring_copy(const struct ring *ring, uint64_t offset, size_t limit, uint8_t *to, bool *is_stderr) {
    size_t at = offset & (ring->size - 1), end = at + limit;
    if (ring->total - offset < limit)
        end = at + (size_t)(ring->total - offset);
    if (end > ring->size)
        end = ring->size;
    *is_stderr = stream_at(ring, at);
    uint8_t same = *is_stderr ? 0xff : 0;
    size_t next = at + 1;
    while (next < end) {
        if (next % 8 == 0 && end - next >= 8 && ring->streams[next / 8] == same)
            next += 8;
        else if (stream_at(ring, next) == *is_stderr)
            next++;
        else
            break;
    }
    memcpy(to, ring->data + at, next - at);
    return next - at;
}

void ring_free(struct ring *ring) {
    free(ring->data);
    free(ring->streams);
    ring->data = ring->streams = NULL;
    ring->size = 0;
}
