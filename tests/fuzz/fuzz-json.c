// The JSON of requests and records: what json_check passes can be walked through, and quoting gives back what it got.
#include "common/json.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void walk(struct json_span v, int depth) {
    struct json_span key, member;
    size_t at = 0;
    if (json_is_string(v)) {
        size_t n;
        char * s = json_unquote(v, &n);
        char * again = json_quote(s, n);
        require(s && again && s[n] == 0 && !json_not_text((struct json_span) { again, strlen(again) }));
        require(json_check(again, strlen(again), NULL) == MRA_OK);
        free(s);
        free(again);
    }
    json_not_text(v);
    json_whole(v);
    if (depth < 100 && (v.s[0] == '{' || v.s[0] == '['))
        while (json_next(v, &at, &key, &member)) walk(member, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const char * const keys[] = { "id", "text", "input" };
    struct json_span values[3];
    struct mra_error err = { 0 };
    char * s = malloc(size ? size : 1); // so that a read behind its end is seen
    memcpy(s, data, size);
    if (json_check(s, size, &err) == MRA_OK) {
        size_t skip = 0;
        while (skip < size && strchr(" \t\r\n", s[skip])) skip++;
        walk((struct json_span) { s + skip, size - skip }, 0);
    } else require(err.msg[0]);
    json_object(s, size, keys, values, 3, &err);
    free(json_quote(s, size));
    free(s);
    return 0;
}
