/* stat, list and remove: never through a link. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "wire.h"

enum { R_PATH = 1, R_TYPE, R_SIZE, R_MODE, R_MTIME_NS, R_UID, R_GID, R_TARGET, R_OWNER, R_GROUP, R_CTIME_NS };

static char type_letter(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFREG: return 'f';
    case S_IFDIR: return 'd';
    case S_IFLNK: return 'l';
    case S_IFCHR: return 'c';
    case S_IFBLK: return 'b';
    case S_IFIFO: return 'p';
    default: return 's';
    }
}

static uint64_t nanoseconds(const struct timespec *time) {
    return (uint64_t)(time->tv_sec * 1000000000LL + time->tv_nsec);
}

static void record(int folder, const char *name, const char *shown, const struct stat *status) {
    struct body body = {0};
    char type = type_letter(status->st_mode), target[PATH_MAX];
    uint8_t length[4];
    put_text(&body, R_PATH, shown);
    put_field(&body, R_TYPE, &type, 1);
    put_u64(&body, R_SIZE, (uint64_t)status->st_size);
    put_u64(&body, R_MODE, status->st_mode & 07777);
    put_u64(&body, R_MTIME_NS, nanoseconds(&status->st_mtim));
    put_u64(&body, R_UID, status->st_uid);
    put_u64(&body, R_GID, status->st_gid);
    if (type == 'l') {
        ssize_t got = readlinkat(folder, name, target, sizeof target);
        put_field(&body, R_TARGET, target, got > 0 ? (size_t)got : 0);
    }
    put_text(&body, R_OWNER, owner_name(status->st_uid));
    put_text(&body, R_GROUP, group_name(status->st_gid));
    put_u64(&body, R_CTIME_NS, nanoseconds(&status->st_ctim));
    if (body.failed)
        file_fail(ENOMEM, shown);
    store_u32(length, (uint32_t)body.length);
    file_out(length, sizeof length);
    file_out(body.data, body.length);
    body_free(&body);
}

void file_stat(const char *path) {
    struct stat status;
    if (stat(path, &status) < 0 && lstat(path, &status) < 0)
        file_fail(errno, path);
    record(AT_FDCWD, path, path, &status);
}

static char *joined(const char *folder, const char *name) {
    size_t length = strlen(folder);
    char *path = malloc(length + strlen(name) + 2);
    if (!path)
        file_fail(ENOMEM, name);
    memcpy(path, folder, length);
    if (length && path[length - 1] != '/')
        path[length++] = '/';
    strcpy(path + length, name);
    return path;
}

static void list_folder(int fd, const char *shown, uint64_t depth) {
    struct names names;
    if (!names_read(fd, &names))
        file_fail(errno, shown);
    for (size_t at = 0; at < names.count; at++) {
        struct stat status;
        if (fstatat(fd, names.names[at], &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone since */
        char *path = joined(shown, names.names[at]);
        record(fd, names.names[at], path, &status);
        if (S_ISDIR(status.st_mode) && depth > 1) {
            int inner = openat(fd, names.names[at], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (inner >= 0) { /* else it is not ours to look into, or gone: it is listed all the same */
                list_folder(inner, path, depth - 1);
                close(inner);
            } else if (errno == EMFILE) {
                file_fail(errno, path);
            }
        }
        free(path);
    }
    names_free(&names);
}

void file_list(const char *path, uint64_t depth) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        file_fail(errno, path);
    if (depth > 0)
        list_folder(fd, "", depth);
    close(fd);
}

void file_list_each(char **paths, uint64_t depth) {
    for (; *paths && depth > 0; paths++) {
        int fd = open(*paths, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            file_fail(errno, *paths);
        if (fd < 0)
            continue; /* gone since it was seen */
        list_folder(fd, *paths, depth);
        close(fd);
    }
}

static void remove_in(int folder, const char *name, const char *shown) {
    /* Most are files; a folder says EISDIR, or EPERM by POSIX. */
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return;
    int error = errno;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && unlinkat(folder, name, AT_REMOVEDIR) == 0)
        return; /* an empty one may be removed by who may not read it */
    if (fd < 0)
        file_fail(errno == ENOTDIR || errno == ELOOP ? error : errno, shown);
    struct names names;
    if (!names_read(fd, &names))
        file_fail(errno, shown);
    for (size_t at = 0; at < names.count; at++) {
        char *path = joined(shown, names.names[at]);
        remove_in(fd, names.names[at], path);
        free(path);
    }
    names_free(&names);
    close(fd);
    if (unlinkat(folder, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        file_fail(errno, shown);
}

void file_remove(const char *path, bool recursive) {
    struct stat status;
    char *plain = strdup(path);
    if (!plain)
        file_fail(ENOMEM, path);
    for (size_t end = strlen(plain); end > 1 && plain[end - 1] == '/'; end--)
        plain[end - 1] = 0; /* `link/` would be the folder behind the link */
    if (lstat(plain, &status) < 0) {
        if (errno != ENOENT)
            file_fail(errno, path);
        file_out("0", 1);
        return;
    }
    if (recursive)
        remove_in(AT_FDCWD, plain, plain);
    else if ((S_ISDIR(status.st_mode) ? rmdir(plain) : unlink(plain)) < 0)
        file_fail(errno, path);
    file_out("1", 1);
    free(plain);
}
