/* What the file operations share. Each ends the program: it is a process of its own. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { COPY_BUFFER = 256 * 1024 };

/* Say `ERRNO PATH` on stderr and exit with 1. */
_Noreturn void file_fail(int error, const char *path);
/* The rest of a number of digits; fails with EINVAL when it is none. */
uint64_t file_number(const char *text, int base);

/* Exactly `length` bytes to stdout, buffered; file_flush writes the rest. */
void file_out(const void *bytes, size_t length);
void file_flush(void);
/* Up to `length` bytes of stdin, fewer only at its end. */
size_t file_in(void *bytes, size_t length);
void write_fully(int fd, const void *bytes, size_t length, const char *path);

/* A name list of a folder, sorted by bytes; false and errno when it cannot be read. `fd` stays open. */
struct names {
    char **names;
    size_t count;
};
bool names_read(int fd, struct names *names);
void names_free(struct names *names);

/* Names from /etc/passwd and /etc/group; "" when there is none. */
const char *owner_name(uint32_t uid);
const char *group_name(uint32_t gid);

/* Open the folder that holds the last part of `path` below `root`, following no link: `path` is relative, has no `..`.
 * With `make` missing folders are made. Returns -1 and errno; `*last` is that last part, "" for the root itself. */
int open_parent(int root, const char *path, bool make, const char **last);

void file_stat(const char *path);
void file_list(const char *path, uint64_t depth);
void file_list_each(char **paths, uint64_t depth); /* with whole paths */
void file_remove(const char *path, bool recursive);
void file_pack(const char *path, char **exclude);
void file_unpack(const char *path);
void file_read(const char *path);
void file_write(const char *path, const char *size, const char *mode);
void file_mkdir(const char *path, bool parents);
/* Make a folder and those above it; an existing folder, or a link to one, is fine. */
int make_folders(const char *path);

#endif
