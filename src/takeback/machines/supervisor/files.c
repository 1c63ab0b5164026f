/* `init file OP ARGS`: one file operation as a process; see docs/formats/channel.md. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int files_main(int argc, char **argv);

static uint8_t pending[COPY_BUFFER];
static size_t pending_length;

_Noreturn void file_fail(int error, const char *path) {
    fprintf(stderr, "%d %s\n", error, path);
    exit(1);
}

uint64_t file_number(const char *text, int base) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, base);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        file_fail(EINVAL, text);
    return value;
}

void write_fully(int fd, const void *bytes, size_t length, const char *path) {
    const uint8_t *at = bytes;
    while (length > 0) {
        ssize_t wrote = write(fd, at, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            file_fail(errno, path);
        at += wrote;
        length -= (size_t)wrote;
    }
}

void file_flush(void) {
    write_fully(STDOUT_FILENO, pending, pending_length, "-");
    pending_length = 0;
}

void file_out(const void *bytes, size_t length) {
    if (length > sizeof pending - pending_length)
        file_flush();
    if (length >= sizeof pending) {
        write_fully(STDOUT_FILENO, bytes, length, "-");
        return;
    }
    memcpy(pending + pending_length, bytes, length);
    pending_length += length;
}

size_t file_in(void *bytes, size_t length) {
    size_t have = 0;
    while (have < length) {
        ssize_t got = read(STDIN_FILENO, (uint8_t *)bytes + have, length - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            file_fail(errno, "-");
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return have;
}

static int by_bytes(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

bool names_read(int fd, struct names *names) {
    int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    size_t room = 0;
    struct dirent *entry;
    *names = (struct names){0};
    if (!folder)
        return false;
    while ((entry = readdir(folder))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (names->count == room) {
            room = room ? room * 2 : 64;
            names->names = realloc(names->names, room * sizeof *names->names);
        }
        if (!names->names || !(names->names[names->count++] = strdup(entry->d_name)))
            file_fail(ENOMEM, entry->d_name);
    }
    closedir(folder);
    if (names->count)
        qsort(names->names, names->count, sizeof *names->names, by_bytes);
    return true;
}

void names_free(struct names *names) {
    for (size_t at = 0; at < names->count; at++)
        free(names->names[at]);
    free(names->names);
}

static void rename_file(const char *from, const char *to, bool overwrite) {
    struct stat there;
    if (overwrite) {
        if (rename(from, to) < 0)
            file_fail(errno, from);
        return;
    }
    enum { NO_REPLACE = 1 };
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, NO_REPLACE) == 0)
        return;
    if (errno == EEXIST)
        file_fail(EEXIST, to);
    if (errno != EINVAL && errno != ENOSYS)
        file_fail(errno, from);
    /* A filesystem that does not know the flag. */
    if (lstat(to, &there) == 0)
        file_fail(EEXIST, to);
    if (rename(from, to) < 0)
        file_fail(errno, from);
}

static bool flag(const char *text) {
    if (strcmp(text, "0") && strcmp(text, "1"))
        file_fail(EINVAL, text);
    return text[0] == '1';
}

static void many_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max; /* one a level: deep trees need more than 1,024 */
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int files_main(int argc, char **argv) {
    const char *operation = argc > 0 ? argv[0] : "";
    const char *path = argc > 1 ? argv[1] : "";
    if (path[0] != '/')
        file_fail(EINVAL, path);
    many_files();
    if (!strcmp(operation, "read") && argc == 2)
        file_read(path);
    else if (!strcmp(operation, "write") && argc == 4)
        file_write(path, argv[2], argv[3]);
    else if (!strcmp(operation, "stat") && argc == 2)
        file_stat(path);
    else if (!strcmp(operation, "list") && argc == 3)
        file_list(path, file_number(argv[2], 10));
    else if (!strcmp(operation, "list-each") && argc >= 3) {
        uint64_t depth = file_number(argv[argc - 1], 10);
        argv[argc - 1] = NULL;
        file_list_each(argv + 1, depth);
    } else if (!strcmp(operation, "mkdir") && argc == 3)
        file_mkdir(path, flag(argv[2]));
    else if (!strcmp(operation, "remove") && argc == 3)
        file_remove(path, flag(argv[2]));
    else if (!strcmp(operation, "rename") && argc == 4)
        rename_file(path, argv[2], flag(argv[3]));
    else if (!strcmp(operation, "chmod") && argc == 3) {
        if (chmod(path, (mode_t)(file_number(argv[2], 8) & 07777)) < 0)
            file_fail(errno, path);
    } else if (!strcmp(operation, "pack"))
        file_pack(path, argv + 2);
    else if (!strcmp(operation, "unpack") && argc == 2)
        file_unpack(path);
    else
        file_fail(ENOSYS, operation);
    file_flush();
    return 0;
}
