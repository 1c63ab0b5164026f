/* The last output of a process, both streams in one: offsets count the bytes of both together. */
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_MAX = 1 << 20 };

struct ring {
    uint8_t *data;
    uint8_t *streams; /* one bit a byte of data: set for stderr */
    size_t size;      /* a power of two, grown on demand up to RING_MAX */
    uint64_t first;   /* oldest offset kept */
    uint64_t total;   /* offset of the next byte */
};

/* Where up to `*room` bytes may be put next, the oldest being given up for them; NULL when there is no memory at all. */
uint8_t *ring_space(struct ring *ring, size_t want, size_t *room);
/* `count` bytes were put at ring_space. */
void ring_filled(struct ring *ring, size_t count, bool is_stderr);
/* Copy at most `limit` bytes of one stream that begin at `offset` (first <= offset < total). */
size_t ring_copy(const struct ring *ring, uint64_t offset, size_t limit, uint8_t *to, bool *is_stderr);
void ring_free(struct ring *ring);

#endif
