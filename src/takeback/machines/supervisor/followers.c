/* Who follows which process, from where and how far: credit, lateness, gaps, and the end. */
#include <errno.h>
#include <stdlib.h>

#include "supervisor.h"

static struct follower *followers;
static struct follower *turn; /* the last one that was served */

static struct follower *find(uint32_t id) {
    struct follower *one = followers;
    while (one && (one->id != id || one->gone))
        one = one->next;
    return one;
}

static bool has_credit(const struct follower *one) {
    return one->cursor - one->began < one->credit;
}

void follow(uint32_t id, struct process *process, uint64_t cursor, uint64_t credit) {
    unsigned count = 0;
    for (struct follower *one = followers; one; one = one->next)
        count += !one->gone;
    struct follower *made = NULL;
    if (count < FOLLOWERS_MAX)
        made = calloc(1, sizeof *made);
    if (!made) {
        out_error(id, ENOBUFS, "too many followers");
        return;
    }
    *made = (struct follower){.next = followers, .process = process, .id = id, .began = cursor, .cursor = cursor,
                              .credit = credit};
    if (process->state == ENDED)
        made->until = process->ring.total;
    followers = made;
}

void follow_credit(uint32_t id, uint64_t total) {
    struct follower *one = find(id);
    if (!one)
        return; /* it ended while this was on the way */
    if (total > one->credit) {
        one->credit = total;
        one->late_since = 0;
    }
}

void unfollow(uint32_t id) {
    struct follower *one = find(id);
    if (one)
        one->gone = true;
}

void unfollow_all(void) {
    for (struct follower *one = followers; one; one = one->next)
        one->gone = true;
}

void followers_gone(const struct process *process) {
    for (struct follower *one = followers; one; one = one->next)
        if (one->process == process)
            one->gone = true;
}

bool followers_of(const struct process *process) {
    for (const struct follower *one = followers; one; one = one->next)
        if (one->process == process && !one->gone)
            return true;
    return false;
}

void followers_sweep(void) {
    for (struct follower **at = &followers; *at;) {
        struct follower *one = *at;
        if (!one->gone) {
            at = &one->next;
            continue;
        }
        if (turn == one)
            turn = NULL;
        *at = one->next;
        free(one);
    }
}

void followers_ended(struct process *process) {
    for (struct follower *one = followers; one; one = one->next)
        if (one->process == process)
            one->until = process->ring.total;
}

static bool output_waits(const struct follower *one) {
    return one->cursor < one->process->ring.total;
}

/* Credit is given anew while the host reads; without it, ten seconds are its chance before output is given up. */
static bool holds(struct follower *one) {
    if (has_credit(one) || !output_waits(one))
        return true;
    if (one->late_since == 0)
        one->late_since = awake_ms();
    return awake_ms() - one->late_since < LATE_MS;
}

uint64_t followers_hold(const struct process *process) {
    uint64_t oldest = UINT64_MAX;
    for (struct follower *one = followers; one; one = one->next)
        if (one->process == process && !one->gone && one->cursor < oldest && holds(one))
            oldest = one->cursor;
    return oldest;
}

bool followers_any_late(void) {
    for (struct follower *one = followers; one; one = one->next)
        if (!one->gone && one->late_since && awake_ms() - one->late_since < LATE_MS)
            return true;
    return false;
}

static size_t number_frame(uint8_t *frame, uint8_t type, uint32_t id, struct body *body) {
    if (body->failed || body->length > PAYLOAD_MAX)
        return 0;
    store_header(frame, type, 0, (uint16_t)body->length, id);
    for (size_t at = 0; at < body->length; at++)
        frame[HEADER + at] = body->data[at];
    return HEADER + body->length;
}

static size_t gap_frame(uint8_t *frame, struct follower *one) {
    struct body body = {0};
    one->cursor = one->process->ring.first;
    put_u64(&body, T_RESUME_AT, one->cursor);
    size_t length = number_frame(frame, M_GAP, one->id, &body);
    body_free(&body);
    return length;
}

static size_t ended_frame(uint8_t *frame, struct follower *one) {
    struct body body = {0};
    put_ending(&body, one->process);
    put_u64(&body, T_DURATION_MS, (uint64_t)(one->process->ended_mono - one->process->started_mono));
    put_u64(&body, T_TOTAL, one->until);
    size_t length = number_frame(frame, M_ENDED, one->id, &body);
    body_free(&body);
    if (length)
        one->gone = true;
    return length;
}

static size_t output_frame(uint8_t *frame, struct follower *one) {
    uint64_t may = one->credit - (one->cursor - one->began);
    size_t limit = PAYLOAD_MAX - 8;
    bool is_stderr;
    if (may < limit)
        limit = (size_t)may;
    size_t got = ring_copy(&one->process->ring, one->cursor, limit, frame + HEADER + 8, &is_stderr);
    store_header(frame, M_OUTPUT, is_stderr ? F_STDERR : 0, (uint16_t)(8 + got), one->id);
    store_u64(frame + HEADER, one->cursor);
    one->cursor += got;
    return HEADER + 8 + got;
}

static size_t frame_of(uint8_t *frame, struct follower *one) {
    if (one->gone)
        return 0;
    if (one->process->state == ENDED && one->cursor >= one->until)
        return ended_frame(frame, one);
    if (!output_waits(one) || !has_credit(one))
        return 0; /* a gap is told once, when it is known how far it goes for this reader */
    return one->cursor < one->process->ring.first ? gap_frame(frame, one) : output_frame(frame, one);
}

size_t followers_frame(uint8_t *frame) {
    struct follower *first = turn && turn->next ? turn->next : followers;
    struct follower *one = first;
    if (!one)
        return 0;
    do {
        size_t length = frame_of(frame, one);
        if (length) {
            turn = one;
            return length;
        }
        one = one->next ? one->next : followers;
    } while (one != first);
    return 0;
}
