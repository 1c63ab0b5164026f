/* Frames from the host: cut out of the stream, put together to messages, and what is malformed answered. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor.h"

enum { BUFFER = 64 * 1024, ASSEMBLIES = 32, STALE_MS = 1000, ABSENT_MS = 100 };

/* A message that goes on in further frames. */
struct assembly {
    struct assembly *next;
    uint8_t type;
    uint32_t id;
    bool spoiled; /* too long: the rest of it is skipped */
    struct body body;
};

static uint8_t buffer[BUFFER];
static size_t held;
static struct assembly *assemblies;
static bool lost; /* the stream made no sense: everything up to an ATTACH is skipped */
static bool stalled;
static int64_t retry_at, last_read;

static const uint8_t attach[HEADER] = {M_ATTACH, 0, NONCE};

bool in_wants(void) {
    return held < BUFFER && !out_crowded();
}

bool in_stalled(void) {
    return stalled;
}

int64_t in_retry_at(void) {
    return retry_at;
}

static void assembly_drop(struct assembly **at) {
    struct assembly *gone = *at;
    *at = gone->next;
    body_free(&gone->body);
    free(gone);
}

static struct assembly **assembly_find(uint8_t type, uint32_t id) {
    struct assembly **at = &assemblies;
    while (*at && ((*at)->type != type || (*at)->id != id))
        at = &(*at)->next;
    return at;
}

static struct assembly *assembly_begin(uint8_t type, uint32_t id) {
    int count = 0;
    for (struct assembly *one = assemblies; one; one = one->next)
        count++;
    struct assembly *made = count < ASSEMBLIES ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made = (struct assembly){.next = assemblies, .type = type, .id = id};
    return assemblies = made;
}

static void one_frame(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *bytes, size_t length) {
    if (type == M_ATTACH)
        while (assemblies)
            assembly_drop(&assemblies);
    struct assembly **at = assembly_find(type, id);
    if (type == M_STDIN || type == M_BYTES || (!*at && !(flags & F_MORE))) {
        request(type, flags, id, bytes, length);
        return;
    }
    struct assembly *message = *at ? *at : assembly_begin(type, id);
    if (!message) {
        out_error(id, ENOBUFS, "too many messages in parts at once");
        return;
    }
    if (!message->spoiled) {
        put_bytes(&message->body, bytes, length);
        if (message->body.failed || message->body.length > MESSAGE_MAX) {
            message->spoiled = true;
            body_free(&message->body);
            out_error(id, E2BIG, "the message is too long");
        }
    }
    if (flags & F_MORE)
        return;
    if (!message->spoiled)
        request(type, flags, id, message->body.data, message->body.length);
    assembly_drop(assembly_find(type, id));
}

/* Skip up to the next thing that looks like an ATTACH; false when more must be read first. */
static bool resynchronize(size_t *at) {
    for (; *at + HEADER <= held; ++*at)
        if (memcmp(buffer + *at, attach, HEADER) == 0) {
            lost = false;
            return true;
        }
    return false;
}

void in_parse(void) {
    size_t at = 0;
    while (held - at >= HEADER && !out_crowded()) {
        if (lost && !resynchronize(&at))
            break;
        const uint8_t *head = buffer + at;
        size_t length = load_u16(head + 2);
        if (length > PAYLOAD_MAX) {
            out_error(load_u32(head + 4), EPROTO, "no frame: waiting for ATTACH");
            lost = true;
            at++;
            continue;
        }
        if (held - at < HEADER + length)
            break;
        at += HEADER + length;
        one_frame(head[0], head[1], load_u32(head + 4), head + HEADER, length);
    }
    stalled = held - at >= HEADER && out_crowded();
    memmove(buffer, buffer + at, held - at);
    held -= at;
}

void in_ready(void) {
    ssize_t got;
    int64_t now = monotonic_ms();
    retry_at = 0;
    do
        got = read(STDIN_FILENO, buffer + held, BUFFER - held);
    while (got < 0 && errno == EINTR);
    if (got <= 0) {
        /* 0: nobody has the FIFO open for writing; somebody will. */
        if (got == 0 || errno != EAGAIN)
            retry_at = now + ABSENT_MS;
        return;
    }
    /* Frames come whole. Half of one that lay here for long is of a host that is gone, and a new one begins so. */
    if (held > 0 && now - last_read > STALE_MS && got >= HEADER && memcmp(buffer + held, attach, HEADER) == 0) {
        memmove(buffer, buffer + held, (size_t)got);
        held = 0;
    }
    last_read = now;
    held += (size_t)got;
    in_parse();
}
