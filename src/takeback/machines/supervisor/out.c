/* Frames towards the host: as many in a write as the pipe takes whole, never a second write before the first is out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "relay.h"

enum { CROWDED = 256 * 1024, AT_ONCE = 128, FULL_RETRY_MS = 1000, ABSENT_MS = 100, SPIN_PAUSE_MS = 2 };

struct queue {
    uint8_t *data; /* whole frames */
    size_t start, end, room;
};

static struct queue urgent, ordinary;
static uint8_t frame[FRAME_MAX]; /* one frame or several, at most PIPE_BUF */
static size_t frame_length, frame_sent;
static uint8_t ahead[FRAME_MAX]; /* the next one, when it had no room beside them */
static size_t ahead_length;
static bool quiet, blocked;
static int64_t retry_at;

static size_t queued(const struct queue *queue) {
    return queue->end - queue->start;
}

static bool make_room(struct queue *queue, size_t more) {
    if (queue->start > 0 && (queue->start == queue->end || queue->end + more > queue->room)) {
        memmove(queue->data, queue->data + queue->start, queued(queue));
        queue->end -= queue->start;
        queue->start = 0;
    }
    if (queue->end + more <= queue->room)
        return true;
    size_t room = queue->room ? queue->room * 2 : 16384;
    while (room < queue->end + more)
        room *= 2;
    uint8_t *data = realloc(queue->data, room);
    if (!data)
        return false;
    queue->data = data;
    queue->room = room;
    return true;
}

static void append(struct queue *queue, uint8_t type, uint32_t id, const struct body *body) {
    size_t length = body ? body->length : 0, at = 0;
    size_t frames = length / PAYLOAD_MAX + 1;
    if (!make_room(queue, length + frames * HEADER))
        return; /* no memory for an answer: the host's time limit tells it */
    do {
        size_t part = length - at < PAYLOAD_MAX ? length - at : PAYLOAD_MAX;
        store_header(queue->data + queue->end, type, at + part < length ? F_MORE : 0, (uint16_t)part, id);
        if (part)
            memcpy(queue->data + queue->end + HEADER, body->data + at, part);
        queue->end += HEADER + part;
        at += part;
    } while (at < length);
}

void out_message(uint8_t type, uint32_t id, const struct body *body) {
    append(&ordinary, type, id, body);
}

void out_urgent(uint8_t type, uint32_t id, const struct body *body) {
    append(&urgent, type, id, body);
}

void out_error(uint32_t id, int error, const char *text) {
    struct body body = {0};
    put_u64(&body, T_ERRNO, (uint64_t)error);
    put_text(&body, T_TEXT, text);
    /* In one line with PONG, which the host uses to learn that a request was done without one. */
    if (quiet)
        out_message(M_ERROR, id, &body);
    else
        out_urgent(M_ERROR, id, &body);
    body_free(&body);
}

void out_forget_all(void) {
    urgent.start = urgent.end = 0;
    ordinary.start = ordinary.end = 0;
}

void out_quiet(bool now) {
    quiet = now;
}

bool out_is_quiet(void) {
    return quiet;
}

bool out_crowded(void) {
    return queued(&ordinary) > CROWDED || queued(&urgent) > CROWDED;
}

static size_t take(struct queue *queue) {
    if (queue->start == queue->end)
        return 0;
    const uint8_t *next = queue->data + queue->start;
    size_t length = HEADER + load_u16(next + 2);
    memcpy(ahead, next, length);
    queue->start += length;
    return length;
}

/* Put the next frame into `ahead`; returns its length. */
static size_t make_frame(void) {
    size_t length = take(&urgent);
    if (length || quiet)
        return length;
    length = take(&ordinary);
    if (length)
        return length;
    length = stdin_accepted(ahead);
    /* Output and relayed connections take turns, or a flood of one would stop the other. */
    static bool relay_first;
    relay_first = !relay_first;
    for (int turn = 0; turn < 2 && length == 0; turn++)
        length = relay_first == (turn == 0) ? relay_frame(ahead) : followers_frame(ahead);
    return length ? length : take(&ordinary); /* a connection may have ended just now */
}

static bool next_frames(void) {
    frame_sent = frame_length = 0;
    while (ahead_length || (ahead_length = make_frame())) {
        if (frame_length + ahead_length > FRAME_MAX)
            break;
        memcpy(frame + frame_length, ahead, ahead_length);
        frame_length += ahead_length;
        ahead_length = 0;
    }
    return frame_length > 0;
}

static bool push(void) {
    ssize_t wrote;
    do
        wrote = write(STDOUT_FILENO, frame + frame_sent, frame_length - frame_sent);
    while (wrote < 0 && errno == EINTR);
    if (wrote < 0) {
        /* EAGAIN: full. Else nobody reads (EPIPE): the next host opens the same FIFO, so it is tried again and again. */
        blocked = errno == EAGAIN;
        retry_at = monotonic_ms() + (blocked ? FULL_RETRY_MS : ABSENT_MS);
        return false;
    }
    frame_sent += (size_t)wrote;
    return true;
}

void out_pump(bool host_ready) {
    if (retry_at > monotonic_ms() && !host_ready)
        return;
    bool was_blocked = blocked;
    blocked = false;
    retry_at = 0;
    for (int count = 0; count < AT_ONCE; count++) {
        if (frame_sent == frame_length && !next_frames()) {
            frame_length = frame_sent = 0;
            return;
        }
        bool whole = frame_sent == 0;
        if (!push()) {
            /* Poll said there was room and there was not enough: without a pause this would spin. */
            if (was_blocked && host_ready && count == 0) {
                blocked = false;
                retry_at = monotonic_ms() + SPIN_PAUSE_MS;
            }
            return;
        }
        if (frame_sent < frame_length && whole)
            count--; /* a pipe takes all of a frame or nothing; whatever took a part is asked for the rest at once */
    }
    retry_at = monotonic_ms(); /* more to say: the children and the host have their turn first */
}

bool out_wants_poll(void) {
    return blocked;
}

int64_t out_retry_at(void) {
    return retry_at;
}
