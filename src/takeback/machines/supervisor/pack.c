/* A tree as a POSIX pax tar stream. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "files.h"
#include "tar.h"
#include "wire.h"

static char **excluded;
static uint8_t block[COPY_BUFFER];

/* Files with more than one name, by inode: from the second name on they are hard links to the first. */
struct linked {
    struct linked *next;
    dev_t device;
    ino_t inode;
    char name[];
};

enum { BUCKETS = 4096 };
static struct linked *seen[BUCKETS];

static const char *first_name(const struct stat *status, const char *name) {
    struct linked **bucket = &seen[status->st_ino % BUCKETS];
    for (struct linked *one = *bucket; one; one = one->next)
        if (one->inode == status->st_ino && one->device == status->st_dev)
            return one->name;
    struct linked *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        file_fail(ENOMEM, name);
    *made = (struct linked){.next = *bucket, .device = status->st_dev, .inode = status->st_ino};
    strcpy(made->name, name);
    *bucket = made;
    return NULL;
}

/* A pattern with a slash is about the whole path, one without about any single name. */
static bool is_excluded(const char *path, const char *name) {
    for (char **pattern = excluded; *pattern; pattern++) {
        bool whole = strchr(*pattern, '/') != NULL;
        const char *text = **pattern == '/' ? *pattern + 1 : *pattern;
        if (fnmatch(text, whole ? path : name, whole ? FNM_PATHNAME : 0) == 0)
            return true;
    }
    return false;
}

static void pad(uint64_t size) {
    static const uint8_t zeros[TAR_BLOCK];
    file_out(zeros, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static void octal(char *field, size_t width, uint64_t value, bool *fits) {
    if (width < 22 && value >> (3 * (width - 1))) {
        *fits = false;
        value = 0;
    }
    for (field[--width] = 0; width-- > 0; value >>= 3)
        field[width] = (char)('0' + (value & 7));
}

static void text(char *field, size_t width, const char *value, bool *fits) {
    size_t length = strlen(value);
    if (length > width)
        *fits = false;
    memcpy(field, value, length < width ? length : width);
}

/* A pax record counts its own length: `27 path=...\n`. */
static void pax(struct body *body, const char *key, const char *value) {
    char head[64];
    size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
    while (length != rest + (size_t)snprintf(head, sizeof head, "%zu", length))
        length = rest + (size_t)snprintf(head, sizeof head, "%zu", length);
    put_bytes(body, head, (size_t)snprintf(head, sizeof head, "%zu %s=", length, key));
    put_bytes(body, value, strlen(value));
    put_bytes(body, "\n", 1);
}

static void pax_number(struct body *body, const char *key, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    pax(body, key, digits);
}

static void finish(struct tar_header *header) {
    memcpy(header->magic, "ustar", 6);
    memcpy(header->version, "00", 2);
    snprintf(header->checksum, sizeof header->checksum, "%06o", tar_checksum(header));
    header->checksum[7] = ' ';
    file_out(header, sizeof *header);
}

static void extended(const struct body *body) {
    struct tar_header header = {.name = "pax", .type = 'x'};
    bool fits = true;
    octal(header.mode, sizeof header.mode, 0644, &fits);
    octal(header.uid, sizeof header.uid, 0, &fits);
    octal(header.gid, sizeof header.gid, 0, &fits);
    octal(header.size, sizeof header.size, body->length, &fits);
    octal(header.mtime, sizeof header.mtime, 0, &fits);
    finish(&header);
    file_out(body->data, body->length);
    pad(body->length);
}

static void member(const char *name, char type, const char *link, uint64_t size, const struct stat *status) {
    struct tar_header header = {.type = type};
    struct body more = {0};
    bool fits = true;
    int64_t seconds = status->st_mtim.tv_sec;
    text(header.name, sizeof header.name, name, &fits);
    if (!fits)
        pax(&more, "path", name);
    fits = true;
    text(header.link, sizeof header.link, link, &fits);
    if (!fits)
        pax(&more, "linkpath", link);
    fits = true;
    octal(header.size, sizeof header.size, size, &fits);
    if (!fits)
        pax_number(&more, "size", size);
    fits = true;
    octal(header.uid, sizeof header.uid, status->st_uid, &fits);
    if (!fits)
        pax_number(&more, "uid", status->st_uid);
    fits = true;
    octal(header.gid, sizeof header.gid, status->st_gid, &fits);
    if (!fits)
        pax_number(&more, "gid", status->st_gid);
    fits = seconds >= 0 && status->st_mtim.tv_nsec == 0;
    octal(header.mtime, sizeof header.mtime, seconds < 0 ? 0 : (uint64_t)seconds, &fits);
    if (!fits) {
        char when[48];
        long nanoseconds = status->st_mtim.tv_nsec;
        if (seconds < 0 && nanoseconds) { /* -1.5 is two seconds back and half a one forth */
            seconds++;
            nanoseconds = 1000000000 - nanoseconds;
        }
        bool minus_zero = seconds == 0 && status->st_mtim.tv_sec < 0;
        snprintf(when, sizeof when, "%s%lld.%09ld", minus_zero ? "-" : "", (long long)seconds, nanoseconds);
        pax(&more, "mtime", when);
    }
    octal(header.mode, sizeof header.mode, status->st_mode & 07777, &fits);
    octal(header.major, sizeof header.major, type == '3' || type == '4' ? major(status->st_rdev) : 0, &fits);
    octal(header.minor, sizeof header.minor, type == '3' || type == '4' ? minor(status->st_rdev) : 0, &fits);
    snprintf(header.user, sizeof header.user, "%.31s", owner_name(status->st_uid));
    snprintf(header.group, sizeof header.group, "%.31s", group_name(status->st_gid));
    if (more.failed)
        file_fail(ENOMEM, name);
    if (more.length)
        extended(&more);
    body_free(&more);
    finish(&header);
}

static void content(int fd, const char *name, uint64_t size) {
    uint64_t left = size;
    while (left > 0) {
        ssize_t got = read(fd, block, left < sizeof block ? (size_t)left : sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            file_fail(errno, name);
        if (got == 0) { /* it became shorter meanwhile: its size was said already */
            size_t part = left < sizeof block ? (size_t)left : sizeof block;
            memset(block, 0, part);
            got = (ssize_t)part;
        }
        file_out(block, (size_t)got);
        left -= (uint64_t)got;
    }
    pad(size);
}

static void pack_one(int folder, const char *name, const char *path);

static void pack_folder(int fd, const char *path) {
    struct names names;
    if (!names_read(fd, &names))
        file_fail(errno, path);
    for (size_t at = 0; at < names.count; at++) {
        size_t length = strlen(path) + strlen(names.names[at]) + 2;
        char *inner = malloc(length);
        if (!inner)
            file_fail(ENOMEM, path);
        snprintf(inner, length, "%s%s%s", path, *path ? "/" : "", names.names[at]);
        if (!is_excluded(inner, names.names[at]))
            pack_one(fd, names.names[at], inner);
        free(inner);
    }
    names_free(&names);
}

static void pack_file(int folder, const char *name, const char *path, struct stat *status) {
    const char *first = status->st_nlink > 1 ? first_name(status, path) : NULL;
    if (first) {
        member(path, '1', first, 0, status);
        return;
    }
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return;
    /* What is open decides: the name may be another file by now. */
    if (fd < 0 || fstat(fd, status) < 0)
        file_fail(errno, path);
    if (S_ISREG(status->st_mode)) {
        member(path, '0', "", (uint64_t)status->st_size, status);
        content(fd, path, (uint64_t)status->st_size);
    }
    close(fd);
}

static void pack_one(int folder, const char *name, const char *path) {
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return; /* gone since its folder was read */
        file_fail(errno, path);
    }
    if (S_ISREG(status.st_mode)) {
        pack_file(folder, name, path, &status);
    } else if (S_ISDIR(status.st_mode)) {
        int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            return;
        if (fd < 0)
            file_fail(errno, path);
        size_t length = strlen(path) + 2;
        char *shown = malloc(length);
        if (!shown)
            file_fail(ENOMEM, path);
        snprintf(shown, length, "%s/", path);
        member(shown, '5', "", 0, &status);
        free(shown);
        pack_folder(fd, path);
        close(fd);
    } else if (S_ISLNK(status.st_mode)) {
        char target[PATH_MAX];
        ssize_t got = readlinkat(folder, name, target, sizeof target - 1);
        if (got < 0)
            return;
        target[got] = 0;
        member(path, '2', target, 0, &status);
    } else if (!S_ISSOCK(status.st_mode)) {
        member(path, S_ISCHR(status.st_mode) ? '3' : S_ISBLK(status.st_mode) ? '4' : '6', "", 0, &status);
    }
}

void file_pack(const char *path, char **exclude) {
    struct stat status;
    excluded = exclude;
    if (stat(path, &status) < 0)
        file_fail(errno, path);
    if (S_ISDIR(status.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            file_fail(errno, path);
        member("./", '5', "", 0, &status);
        pack_folder(fd, "");
        close(fd);
    } else {
        pack_file(AT_FDCWD, path, strrchr(path, '/') + 1, &status);
    }
    static const uint8_t end[2 * TAR_BLOCK];
    file_out(end, sizeof end);
}
