/* Reading tar headers. Does not cover: what is made of them (see unpack.c). */
#include "tarread.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "files.h"
#include "tar.h"

static char *long_name, *long_link; /* from pax or GNU headers, for the next member */
static uint64_t pax_size;
static struct timespec pax_mtime;
static bool have_size, have_mtime;
static char *last_name, *last_link;

static _Noreturn void malformed(const char *what) {
    file_fail(EBADMSG, what);
}

static uint64_t number(const char *field, size_t width) {
    uint64_t value = 0;
    if ((uint8_t)field[0] == 0xff)
        return 0; /* GNU: a negative number, only ever a time */
    if ((uint8_t)field[0] == 0x80) { /* GNU: a big number in base 256 */
        for (size_t at = 1; at < width; at++) {
            if (value >> 56)
                malformed("number");
            value = value << 8 | (uint8_t)field[at];
        }
        return value;
    }
    size_t at = 0;
    while (at < width && field[at] == ' ')
        at++;
    for (; at < width && field[at] >= '0' && field[at] <= '7'; at++)
        value = value << 3 | (uint64_t)(field[at] - '0');
    if (at < width && field[at] != 0 && field[at] != ' ')
        malformed("number");
    return value;
}

void tar_skip(uint64_t size) {
    uint8_t skipped[4096];
    uint64_t left = size;
    while (left > 0) {
        size_t part = left < sizeof skipped ? (size_t)left : sizeof skipped;
        if (file_in(skipped, part) < part)
            malformed("end");
        left -= part;
    }
    tar_skip_padding(size);
}

void tar_skip_padding(uint64_t size) {
    uint8_t skipped[TAR_BLOCK];
    size_t part = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
    if (file_in(skipped, part) < part)
        malformed("end");
}

static char *content(uint64_t size) {
    if (size > TAR_PAX_MAX)
        malformed("long name");
    char *text = malloc(size + 1);
    if (!text)
        file_fail(ENOMEM, "long name");
    if (file_in(text, size) < size)
        malformed("end");
    text[size] = 0;
    tar_skip_padding(size);
    return text;
}

static char *copy(const char *text, size_t length) {
    char *copied = strndup(text, length);
    if (!copied)
        file_fail(ENOMEM, "name");
    if (memchr(text, 0, length))
        malformed("name");
    return copied;
}

static struct timespec moment(const char *value) {
    char *end;
    bool minus = *value == '-';
    struct timespec when = {.tv_sec = strtoll(value, &end, 10)};
    long unit = 100000000;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
            when.tv_nsec += (*end - '0') * unit;
    if (minus && when.tv_nsec) {
        when.tv_sec--;
        when.tv_nsec = 1000000000 - when.tv_nsec;
    }
    return when;
}

static void pax_record(const char *key, size_t key_length, const char *value, size_t length) {
    if (key_length == 4 && !memcmp(key, "path", 4)) {
        free(long_name);
        long_name = copy(value, length);
    } else if (key_length == 8 && !memcmp(key, "linkpath", 8)) {
        free(long_link);
        long_link = copy(value, length);
    } else if (key_length == 4 && !memcmp(key, "size", 4)) {
        pax_size = strtoull(value, NULL, 10);
        have_size = true;
    } else if (key_length == 5 && !memcmp(key, "mtime", 5)) {
        pax_mtime = moment(value);
        have_mtime = true;
    } else if (key_length >= 11 && !memcmp(key, "GNU.sparse.", 11)) {
        file_fail(ENOTSUP, "sparse");
    }
}

static void pax_records(char *text, uint64_t size) {
    char *at = text, *end = text + size;
    while (at < end) {
        char *key;
        unsigned long length = strtoul(at, &key, 10);
        if (key == at || *key != ' ' || length < 5 || length > (size_t)(end - at) || at[length - 1] != '\n')
            malformed("pax");
        char *stop = at + length - 1, *equals = memchr(key, '=', (size_t)(stop - key));
        if (!equals)
            malformed("pax");
        *stop = 0; /* the line break, so that numbers end */
        key++;
        pax_record(key, (size_t)(equals - key), equals + 1, (size_t)(stop - equals - 1));
        at += length;
    }
}

static bool read_header(struct tar_header *header) {
    static const struct tar_header zeros;
    size_t got = file_in(header, sizeof *header);
    if (got == 0)
        return false;
    if (got < sizeof *header)
        malformed("end");
    if (memcmp(header, &zeros, sizeof zeros) == 0)
        return false;
    if (number(header->checksum, sizeof header->checksum) != tar_checksum(header))
        malformed("checksum");
    return true;
}

static char *ustar_name(const struct tar_header *header) {
    char name[sizeof header->prefix + sizeof header->name + 2];
    size_t prefix = 0;
    if (!memcmp(header->magic, "ustar", 6)) /* GNU's own magic has blanks there and other things in the prefix */
        prefix = strnlen(header->prefix, sizeof header->prefix);
    snprintf(name, sizeof name, "%.*s%s%.*s", (int)prefix, header->prefix, prefix ? "/" : "",
             (int)strnlen(header->name, sizeof header->name), header->name);
    return copy(name, strlen(name));
}

static void describe(struct tar_member *member, const struct tar_header *header) {
    free(last_name);
    free(last_link);
    last_name = long_name ? long_name : ustar_name(header);
    last_link = long_link ? long_link : copy(header->link, strnlen(header->link, sizeof header->link));
    long_name = long_link = NULL;
    *member = (struct tar_member){
        .name = last_name,
        .link = last_link,
        .type = header->type == 0 || header->type == '7' ? '0' : header->type,
        .size = have_size ? pax_size : number(header->size, sizeof header->size),
        .mode = (mode_t)(number(header->mode, sizeof header->mode) & 07777),
        .mtime = {.tv_sec = (time_t)number(header->mtime, sizeof header->mtime)},
    };
    if (have_mtime)
        member->mtime = pax_mtime;
    have_size = have_mtime = false;
    if (member->type == '3' || member->type == '4')
        member->device = makedev((unsigned)number(header->major, 8), (unsigned)number(header->minor, 8));
    size_t length = strlen(member->name);
    if (member->type == '0' && length && member->name[length - 1] == '/')
        member->type = '5'; /* before POSIX a folder was a file with a slash */
    if (member->type != '0' && member->type != '5')
        member->size = member->type == '1' && header->type == '1' ? member->size : 0;
}

bool tar_next(struct tar_member *member) {
    struct tar_header header;
    while (read_header(&header)) {
        uint64_t size = number(header.size, sizeof header.size);
        switch (header.type) {
        case 'x': {
            char *text = content(size);
            pax_records(text, size);
            free(text);
            break;
        }
        case 'L':
            free(long_name);
            long_name = content(size);
            break;
        case 'K':
            free(long_link);
            long_link = content(size);
            break;
        case 'g': /* said of all: nothing of it matters here */
        case 'V': /* a label */
            tar_skip(size);
            break;
        default:
            describe(member, &header);
            return true;
        }
    }
    return false;
}
