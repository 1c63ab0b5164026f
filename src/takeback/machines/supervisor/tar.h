/* The header of a tar member: POSIX.1-2017, pax, "ustar Interchange Format". */
#ifndef TAR_H
#define TAR_H

#include <stdint.h>

enum { TAR_BLOCK = 512, TAR_PAX_MAX = 1 << 20 };

struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};

_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is one block");

static inline unsigned tar_checksum(const struct tar_header *header) {
    const uint8_t *bytes = (const uint8_t *)header;
    unsigned sum = 0;
    for (unsigned at = 0; at < TAR_BLOCK; at++)
        sum += at >= 148 && at < 156 ? ' ' : bytes[at]; /* its own field counts as blanks */
    return sum;
}

#endif
