/* Prints the layout that the header gives, and calls a plugin written against it. */
#include "deputize_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static deputize_owned give(const char *json) {
    deputize_owned bytes = {NULL, strlen(json), 0};
    bytes.ptr = malloc(bytes.len);
    if (bytes.ptr == NULL) {
        bytes.len = 0;
        return bytes;
    }
    memcpy(bytes.ptr, json, bytes.len);
    return bytes;
}

static deputize_owned describe(void) {
    return give("{\"ok\":{\"name\":\"c\",\"version\":\"1\",\"tools\":[]}}");
}

static deputize_owned call(deputize_view tool, deputize_view arguments, const deputize_host_v1 *host) {
    (void)tool;
    (void)arguments;
    return give(host->cancelled(host->context) ? "{\"failed\":\"cancelled\"}" : "{\"ok\":1}");
}

static void free_bytes(deputize_owned bytes) {
    free(bytes.ptr);
}

DEPUTIZE_EXPORT const deputize_table_v1 deputize_plugin_v1 = {
    DEPUTIZE_MAGIC, sizeof(deputize_table_v1), DEPUTIZE_ABI, 0, describe, call, free_bytes
};

static uint32_t yes(const void *context) {
    return context == NULL;
}

#define TYPE(type) printf(#type " size %zu align %zu\n", sizeof(type), _Alignof(type))
#define FIELD(type, field) \
    printf("  %zu " #field " %zu\n", offsetof(type, field), sizeof(((type *)NULL)->field))

int main(void) {
    printf("magic %u abi %u\n", (unsigned)DEPUTIZE_MAGIC, (unsigned)DEPUTIZE_ABI);
    TYPE(deputize_view);
    FIELD(deputize_view, ptr);
    FIELD(deputize_view, len);
    TYPE(deputize_owned);
    FIELD(deputize_owned, ptr);
    FIELD(deputize_owned, len);
    FIELD(deputize_owned, cap);
    TYPE(deputize_host_v1);
    FIELD(deputize_host_v1, size);
    FIELD(deputize_host_v1, reserved);
    FIELD(deputize_host_v1, context);
    FIELD(deputize_host_v1, cancelled);
    FIELD(deputize_host_v1, about);
    FIELD(deputize_host_v1, note);
    TYPE(deputize_table_v1);
    FIELD(deputize_table_v1, magic);
    FIELD(deputize_table_v1, size);
    FIELD(deputize_table_v1, abi);
    FIELD(deputize_table_v1, reserved);
    FIELD(deputize_table_v1, describe);
    FIELD(deputize_table_v1, call);
    FIELD(deputize_table_v1, free);

    deputize_view nothing = {NULL, 0};
    deputize_host_v1 host = {sizeof(host), 0, NULL, yes, nothing, NULL};
    deputize_owned answer = deputize_plugin_v1.call(nothing, nothing, &host);
    printf("%.*s\n", (int)answer.len, (const char *)answer.ptr);
    deputize_plugin_v1.free(answer);
    return 0;
}
