/* A tar stream into a folder: nothing is written outside it, nor through a link inside it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "files.h"
#include "tarread.h"

static uint8_t block[COPY_BUFFER];

/* Modes and times of folders are set at the end: making their files would change the one and may need the other. */
struct later {
    struct later *next;
    mode_t mode;
    struct timespec mtime;
    char name[];
};

static struct later *folders;

static void set_later(const struct tar_member *member) {
    struct later *made = malloc(sizeof *made + strlen(member->name) + 1);
    if (!made)
        file_fail(ENOMEM, member->name);
    *made = (struct later){.next = folders, .mode = member->mode, .mtime = member->mtime};
    strcpy(made->name, member->name);
    folders = made;
}

static void set_folders(int root) {
    for (struct later *one = folders; one; one = one->next) { /* the latest first: inner ones before outer ones */
        const char *last;
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, one->mtime};
        int parent = open_parent(root, one->name, false, &last);
        int fd = parent < 0 ? -1 : openat(parent, *last ? last : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) { /* else a later member took its place */
            futimens(fd, times);
            fchmod(fd, one->mode);
            close(fd);
        }
        if (parent >= 0)
            close(parent);
    }
}

/* Take away what has the name, unless it is a folder that would have to be empty. */
static void clear(int parent, const char *last, const char *name) {
    if (unlinkat(parent, last, 0) == 0 || errno == ENOENT)
        return;
    if (unlinkat(parent, last, AT_REMOVEDIR) < 0)
        file_fail(errno, name);
}

static void make_file(int parent, const char *last, const struct tar_member *member) {
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, member->mtime};
    clear(parent, last, member->name);
    int fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        file_fail(errno, member->name);
    for (uint64_t left = member->size; left > 0;) {
        size_t part = left < sizeof block ? (size_t)left : sizeof block;
        if (file_in(block, part) < part)
            file_fail(EPIPE, member->name);
        write_fully(fd, block, part, member->name);
        left -= part;
    }
    if (fchmod(fd, member->mode) < 0 || futimens(fd, times) < 0 || close(fd) < 0)
        file_fail(errno, member->name);
    tar_skip_padding(member->size);
}

static void make_folder(int parent, const char *last, const struct tar_member *member) {
    struct stat status;
    if (*last && mkdirat(parent, last, 0700) < 0) {
        if (errno != EEXIST || fstatat(parent, last, &status, AT_SYMLINK_NOFOLLOW) < 0)
            file_fail(errno, member->name);
        if (!S_ISDIR(status.st_mode)) { /* a link to a folder is replaced, not followed */
            if (unlinkat(parent, last, 0) < 0 || mkdirat(parent, last, 0700) < 0)
                file_fail(errno, member->name);
        } else if ((status.st_mode & 0700) != 0700) {
            fchmodat(parent, last, (status.st_mode & 07777) | 0700, AT_SYMLINK_NOFOLLOW); /* its files come next */
        }
    }
    set_later(member);
}

static void make_link(int root, int parent, const char *last, const struct tar_member *member) {
    const char *target;
    char own[NAME_MAX + 1];
    struct stat there, here;
    snprintf(own, sizeof own, "%s", last); /* open_parent keeps one name at a time */
    int from = open_parent(root, member->link, false, &target);
    if (from < 0)
        file_fail(errno, member->link);
    if (fstatat(from, target, &there, AT_SYMLINK_NOFOLLOW) < 0)
        file_fail(errno, member->link);
    /* Unpacking twice: the two names are one file already, and clearing one may clear the last. */
    bool same = fstatat(parent, own, &here, AT_SYMLINK_NOFOLLOW) == 0 && here.st_ino == there.st_ino &&
                here.st_dev == there.st_dev;
    if (!same) {
        clear(parent, own, member->name);
        if (linkat(from, target, parent, own, 0) < 0)
            file_fail(errno, member->name);
    }
    close(from);
}

static void make_other(int parent, const char *last, const struct tar_member *member) {
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, member->mtime};
    int done;
    clear(parent, last, member->name);
    if (member->type == '2')
        done = symlinkat(member->link, parent, last);
    else if (member->type == '6')
        done = mkfifoat(parent, last, 0600);
    else
        done = mknodat(parent, last, 0600 | (member->type == '3' ? S_IFCHR : S_IFBLK), member->device);
    if (done < 0)
        file_fail(errno, member->name);
    if (member->type != '2')
        fchmodat(parent, last, member->mode, AT_SYMLINK_NOFOLLOW);
    utimensat(parent, last, times, AT_SYMLINK_NOFOLLOW);
}

static void unpack_one(int root, const struct tar_member *member) {
    const char *last;
    int parent = open_parent(root, member->name, true, &last);
    if (parent < 0)
        file_fail(errno, member->name);
    if (!*last && member->type != '5')
        file_fail(EPERM, member->name);
    switch (member->type) {
    case '0': make_file(parent, last, member); break;
    case '1': make_link(root, parent, last, member); break;
    case '2':
    case '3':
    case '4':
    case '6': make_other(parent, last, member); break;
    case '5': make_folder(parent, last, member); break;
    default: file_fail(ENOTSUP, member->name);
    }
    close(parent);
    if (member->type != '0')
        tar_skip(member->size);
}

void file_unpack(const char *path) {
    struct tar_member member;
    int error = make_folders(path);
    if (error)
        file_fail(error, path);
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        file_fail(errno, path);
    while (tar_next(&member))
        unpack_one(root, &member);
    set_folders(root);
    close(root);
    while (file_in(block, sizeof block) > 0) /* what pads the stream: its writer must not be cut off */
        ;
}
