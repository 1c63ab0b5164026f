/* Names of users and groups, read from the sandbox's own files: a static program has no name service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

struct entry {
    uint32_t id;
    char name[64];
};

struct table {
    const char *path;
    bool read;
    struct entry *entries;
    size_t count;
};

static struct table users = {.path = "/etc/passwd"}, groups = {.path = "/etc/group"};

static void read_table(struct table *table) {
    char *line = NULL;
    size_t room = 0;
    table->read = true;
    FILE *file = fopen(table->path, "re");
    if (!file)
        return;
    while (getline(&line, &room, file) > 0) {
        struct entry entry = {0};
        char *colon = strchr(line, ':');
        char *second = colon ? strchr(colon + 1, ':') : NULL;
        if (!second || colon == line || (size_t)(colon - line) >= sizeof entry.name)
            continue;
        char *end;
        unsigned long id = strtoul(second + 1, &end, 10);
        if (end == second + 1 || *end != ':')
            continue;
        entry.id = (uint32_t)id;
        memcpy(entry.name, line, (size_t)(colon - line));
        struct entry *more = realloc(table->entries, (table->count + 1) * sizeof entry);
        if (!more)
            break;
        table->entries = more;
        table->entries[table->count++] = entry;
    }
    free(line);
    fclose(file);
}

static const char *find(struct table *table, uint32_t id) {
    if (!table->read)
        read_table(table);
    for (size_t at = 0; at < table->count; at++)
        if (table->entries[at].id == id)
            return table->entries[at].name;
    return "";
}

const char *owner_name(uint32_t uid) {
    return find(&users, uid);
}

const char *group_name(uint32_t gid) {
    return find(&groups, gid);
}
