/*
 * The C ABI between Deputize and a dynamic tool plugin, version 1.
 *
 * A plugin is a dynamic library that exports one static:
 *
 *     DEPUTIZE_EXPORT const deputize_table_v1 deputize_plugin_v1 = {
 *         DEPUTIZE_MAGIC, sizeof(deputize_table_v1), DEPUTIZE_ABI, 0, describe, call, free_bytes
 *     };
 *
 * Answers are one JSON object in UTF-8 with one of these members: {"ok":...} with what was asked
 * for, {"refused":"..."} with words for the model, {"failed":"..."} with words for the operator,
 * {"cancelled":...} with what there was when the call was cancelled, or null, {"panicked":true}
 * where the tool broke off, its message being on standard error. Beside "ok" there may be
 * "notes":["..."], remarks of the tool itself.
 * `describe` answers {"ok":{"name":"...","version":"...","tools":[
 *     {"name":"...","description":"...","parameters":{JSON Schema of an object}}]}}, the same at
 * every call. A tool may also have "toolset", "effects" ("read_only", "writes_files" or "unknown"),
 * "repeatable", "parallel", "time_limit_ms", "unusable" (why), "examples" ([{"title","arguments"}]),
 * and for people "kind" ("read", "edit", "delete", "move", "search", "execute", "fetch", "delegate",
 * "think" or "other"), "subject" (the argument that tells most) and "verb" (what is done with it).
 *
 * Functions are called from any thread and several at once. No exception may leave them.
 * Within version 1 fields are only appended; `size` says how many there are.
 */
#ifndef DEPUTIZE_PLUGIN_H
#define DEPUTIZE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define DEPUTIZE_MAGIC UINT32_C(0x44505459)
#define DEPUTIZE_ABI UINT32_C(1)

#if defined(_WIN32)
#define DEPUTIZE_VISIBLE __declspec(dllexport)
#else
#define DEPUTIZE_VISIBLE __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define DEPUTIZE_EXPORT extern "C" DEPUTIZE_VISIBLE
extern "C" {
#else
#define DEPUTIZE_EXPORT DEPUTIZE_VISIBLE
#endif

/* Bytes lent for the length of one call. `ptr` may be anything when `len` is 0. */
typedef struct deputize_view {
    const uint8_t *ptr;
    size_t len;
} deputize_view;

/* Bytes given away, until they are given back to the `free` of the same table. `cap` is the maker's own. */
typedef struct deputize_owned {
    uint8_t *ptr;
    size_t len;
    size_t cap;
} deputize_owned;

/* What a host lends to one call of a tool. Valid, in any thread, until that call returns. */
typedef struct deputize_host_v1 {
    uint32_t size;     /* bytes of this struct as the host knows it */
    uint32_t reserved; /* 0 */
    const void *context;
    /* Not 0 once the call is cancelled; then answer soon. Takes `context`. Cheap, never blocks. */
    uint32_t (*cancelled)(const void *context);
    /* Who calls, where, and what it may touch, as JSON text: {"session","agent","call","cwd",
     * "spill","read":[...],"write":[...],"kept":[...],"network"}; "spill" is a directory for what
     * is too long for an answer, and at or below "kept" nothing is written. Only if `size` reaches
     * behind it. */
    deputize_view about;
    /* Takes a few words on how far the call is, UTF-8. Only if `size` reaches behind it. */
    void (*note)(const void *context, deputize_view text);
} deputize_host_v1;

/* A plugin's one exported static. No function may be null. */
typedef struct deputize_table_v1 {
    uint32_t magic;    /* DEPUTIZE_MAGIC */
    uint32_t size;     /* sizeof(deputize_table_v1) */
    uint32_t abi;      /* DEPUTIZE_ABI */
    uint32_t reserved; /* 0 */
    /* Which tools there are. */
    deputize_owned (*describe)(void);
    /* Calls one tool: its name, its arguments as JSON text, and a host, which is not null. */
    deputize_owned (*call)(deputize_view tool, deputize_view arguments, const deputize_host_v1 *host);
    /* Takes back what `describe` or `call` gave; called once for each. */
    void (*free)(deputize_owned bytes);
} deputize_table_v1;

/* The static itself, so that its definition has C linkage and the right type. */
extern DEPUTIZE_VISIBLE const deputize_table_v1 deputize_plugin_v1;

#ifdef __cplusplus
}
#endif

#endif
