/* Reading and building the bodies of messages. Does not cover: moving them (see in.c and out.c). */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

void store_u16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

void store_u32(uint8_t *to, uint32_t value) {
    store_u16(to, (uint16_t)value);
    store_u16(to + 2, (uint16_t)(value >> 16));
}

void store_u64(uint8_t *to, uint64_t value) {
    store_u32(to, (uint32_t)value);
    store_u32(to + 4, (uint32_t)(value >> 32));
}

uint16_t load_u16(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

uint32_t load_u32(const uint8_t *from) {
    return load_u16(from) | (uint32_t)load_u16(from + 2) << 16;
}

uint64_t load_u64(const uint8_t *from) {
    return load_u32(from) | (uint64_t)load_u32(from + 4) << 32;
}

void store_header(uint8_t *to, uint8_t type, uint8_t flags, uint16_t length, uint32_t id) {
    to[0] = type;
    to[1] = flags;
    store_u16(to + 2, length);
    store_u32(to + 4, id);
}

int next_field(struct fields *body, struct field *field) {
    size_t left = (size_t)(body->end - body->at);
    if (left == 0)
        return 0;
    if (left < 5)
        return -1;
    field->tag = body->at[0];
    field->length = load_u32(body->at + 1);
    if (field->length > left - 5)
        return -1;
    field->bytes = body->at + 5;
    body->at += 5 + field->length;
    return 1;
}

bool field_u64(const struct field *field, uint64_t *value) {
    if (field->length != 8)
        return false;
    *value = load_u64(field->bytes);
    return true;
}

bool find_u64(const uint8_t *bytes, size_t length, uint8_t tag, uint64_t otherwise, uint64_t *value) {
    struct fields body = {bytes, bytes + length};
    struct field field;
    int got;
    bool found = false;
    *value = otherwise;
    while ((got = next_field(&body, &field)) == 1) {
        if (field.tag != tag || found)
            continue;
        if (!field_u64(&field, value))
            return false;
        found = true;
    }
    return got == 0;
}

void put_bytes(struct body *body, const void *bytes, size_t length) {
    if (body->failed || length == 0)
        return;
    if (length > body->room - body->length) {
        size_t room = body->room ? body->room : 256;
        while (room - body->length < length)
            room *= 2;
        uint8_t *data = realloc(body->data, room);
        if (!data) {
            body->failed = true;
            return;
        }
        body->data = data;
        body->room = room;
    }
    memcpy(body->data + body->length, bytes, length);
    body->length += length;
}

void put_field(struct body *body, uint8_t tag, const void *bytes, size_t length) {
    uint8_t head[5] = {tag};
    store_u32(head + 1, (uint32_t)length);
    put_bytes(body, head, sizeof head);
    put_bytes(body, bytes, length);
}

void put_text(struct body *body, uint8_t tag, const char *text) {
    put_field(body, tag, text, strlen(text));
}

void put_u64(struct body *body, uint8_t tag, uint64_t value) {
    uint8_t bytes[8];
    store_u64(bytes, value);
    put_field(body, tag, bytes, sizeof bytes);
}

void body_free(struct body *body) {
    free(body->data);
    *body = (struct body){0};
}
