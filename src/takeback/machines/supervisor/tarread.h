/* The members of a tar stream on stdin: ustar, pax, GNU long names. */
#ifndef TARREAD_H
#define TARREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tar_member {
    char *name, *link; /* kept until the next one is read */
    char type;         /* '0' file, '1' hard link, '2' link, '3' '4' devices, '5' folder, '6' FIFO; else unknown */
    uint64_t size;
    mode_t mode;
    struct timespec mtime;
    dev_t device;
};

/* False at the end of the stream. What is malformed ends the program with EBADMSG. */
bool tar_next(struct tar_member *member);
void tar_skip(uint64_t size); /* a member's content with its padding */
void tar_skip_padding(uint64_t size);

#endif
