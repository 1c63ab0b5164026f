/* Reading and writing one file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

static uint8_t block[COPY_BUFFER];

void file_read(const char *path) {
    struct stat status;
    if (stat(path, &status) < 0)
        file_fail(errno, path);
    /* Looked at before it is opened: opening a FIFO waits, opening a device may do anything. */
    if (!S_ISREG(status.st_mode))
        file_fail(S_ISDIR(status.st_mode) ? EISDIR : EINVAL, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        file_fail(errno, path);
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            file_fail(errno, path);
        if (got == 0)
            break;
        write_fully(STDOUT_FILENO, block, (size_t)got, "-");
    }
    close(fd);
}

int make_folders(const char *path) {
    char part[PATH_MAX];
    struct stat status;
    size_t length = strlen(path);
    if (length >= sizeof part)
        return ENAMETOOLONG;
    for (size_t at = 1; at <= length; at++) {
        if (path[at] != '/' && path[at] != 0)
            continue;
        memcpy(part, path, at);
        part[at] = 0;
        if (mkdir(part, 0777) == 0)
            continue;
        int error = errno;
        /* EROFS and EACCES come before EEXIST on some filesystems. */
        if (stat(part, &status) < 0)
            return error == EEXIST ? errno : error;
        if (!S_ISDIR(status.st_mode))
            return ENOTDIR;
    }
    return 0;
}

void file_mkdir(const char *path, bool parents) {
    int error = parents ? make_folders(path) : mkdir(path, 0777) < 0 ? errno : 0;
    if (error)
        file_fail(error, path);
}

static void make_parents(const char *path) {
    char parent[PATH_MAX];
    const char *end = strrchr(path, '/');
    if (end == path)
        return;
    snprintf(parent, sizeof parent, "%.*s", (int)(end - path), path);
    int error = make_folders(parent);
    if (error)
        file_fail(error, parent);
}

static char temporary[PATH_MAX];

static _Noreturn void give_up(int error, const char *path) {
    if (temporary[0])
        unlink(temporary);
    file_fail(error, path);
}

static void take_content(int fd, const char *path, const char *size) {
    bool to_the_end = !strcmp(size, "-");
    uint64_t left = to_the_end ? UINT64_MAX : file_number(size, 10);
    while (left > 0) {
        size_t got = file_in(block, left < sizeof block ? (size_t)left : sizeof block);
        if (got == 0 && to_the_end)
            break;
        if (got == 0)
            give_up(EPIPE, path); /* whoever sent it stopped half way: the old file stays */
        for (size_t at = 0; at < got;) {
            ssize_t wrote = write(fd, block + at, got - at);
            if (wrote < 0 && errno != EINTR)
                give_up(errno, path);
            at += wrote > 0 ? (size_t)wrote : 0;
        }
        left -= got;
    }
}

void file_write(const char *path, const char *size, const char *mode) {
    char real[PATH_MAX];
    struct stat old = {0};
    bool there = stat(path, &old) == 0;
    mode_t bits = there ? old.st_mode & 07777 : 0644;
    if (strcmp(mode, "-"))
        bits = (mode_t)(file_number(mode, 8) & 07777);
    if (there && !S_ISREG(old.st_mode))
        file_fail(S_ISDIR(old.st_mode) ? EISDIR : EINVAL, path);
    size_t length = strlen(path);
    if (length >= sizeof real || path[length - 1] == '/')
        file_fail(length >= sizeof real ? ENAMETOOLONG : EISDIR, path);
    if (there && !realpath(path, real)) /* a link to a file: the file is replaced, not the link */
        file_fail(errno, path);
    if (!there) {
        memcpy(real, path, length + 1);
        make_parents(real);
    }
    int folder_length = (int)(strrchr(real, '/') - real), fd = -1;
    for (unsigned number = 0; fd < 0 && number < 1000; number++) {
        if (snprintf(temporary, sizeof temporary, "%.*s/.takeback-%d-%u", folder_length, real, (int)getpid(), number) >=
            (int)sizeof temporary)
            file_fail(ENAMETOOLONG, path);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            file_fail(errno, path);
    }
    if (fd < 0)
        file_fail(EEXIST, path);
    take_content(fd, path, size);
    if (there && geteuid() == 0 && fchown(fd, old.st_uid, old.st_gid) < 0)
        give_up(errno, path);
    if (fchmod(fd, bits) < 0 || fsync(fd) < 0 || close(fd) < 0 || rename(temporary, real) < 0)
        give_up(errno, path);
}
