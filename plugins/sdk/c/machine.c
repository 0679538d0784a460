/*
 * A plugin in C: how busy the machine is. One file and the header:
 *
 *     cc -shared -fPIC -O2 -Wall -I plugins/sdk/include plugins/sdk/c/machine.c -o libmachine.so
 *     deputize plugin check libmachine.so
 */
#include "deputize_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL "machine_load"

/* The bytes are given away; `free_bytes` takes them back. */
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

static void free_bytes(deputize_owned bytes) {
    free(bytes.ptr);
}

static deputize_owned describe(void) {
    return give(
        "{\"ok\":{\"name\":\"machine\",\"version\":\"1.0.0\",\"tools\":[{"
        "\"name\":\"" TOOL "\","
        "\"description\":\"Tell how busy this machine is: processors, and the mean number of "
        "running tasks in the last 1, 5 and 15 minutes.\","
        "\"effects\":\"read_only\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false},"
        "\"examples\":[{\"title\":\"How busy it is\",\"arguments\":{}}]}]}}");
}

static deputize_owned call(deputize_view tool, deputize_view arguments, const deputize_host_v1 *host) {
    (void)arguments; /* It has none, and the host has checked that. */
    if (tool.len != strlen(TOOL) || memcmp(tool.ptr, TOOL, tool.len) != 0) {
        return give("{\"refused\":\"there is no such tool here\"}");
    }
    if (host->cancelled(host->context)) {
        return give("{\"cancelled\":null}");
    }
    double load[3];
    if (getloadavg(load, 3) != 3) {
        return give("{\"failed\":\"the system does not tell its load\"}");
    }
    char json[160];
    snprintf(json, sizeof(json), "{\"ok\":{\"processors\":%ld,\"load\":[%.2f,%.2f,%.2f]}}",
             sysconf(_SC_NPROCESSORS_ONLN), load[0], load[1], load[2]);
    return give(json);
}

DEPUTIZE_EXPORT const deputize_table_v1 deputize_plugin_v1 = {
    DEPUTIZE_MAGIC, sizeof(deputize_table_v1), DEPUTIZE_ABI, 0, describe, call, free_bytes
};
