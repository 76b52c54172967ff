#include "ending.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char * text;
    enum ending ending;
} known[] = {
    { "txt", ENDING_TEXT },
    { "text", ENDING_TEXT },
    { "tsv", ENDING_TSV },
    { "csv", ENDING_CSV },
    { "json", ENDING_JSON },
    { "jsonl", ENDING_JSONL },
    { "ndjson", ENDING_JSONL },
    { "npy", ENDING_NPY },
    { "npz", ENDING_NPZ },
    { "raw", ENDING_RAW },
    { "f32", ENDING_RAW },
    { "bin", ENDING_RAW },
};

static const char * const foreign[] = { "gz", "zst", "bz2", "xz", "zip", "tar", "tgz", "7z", "parquet", "arrow",
    "feather", "avro", "orc", "h5", "hdf5", "mat", "pkl", "pickle", "pt", "pth", "safetensors", "gguf", "db", "sqlite",
    "xls", "xlsx", "ods", "html", "xml", "yaml", "yml", "md", "pdf" };

enum ending ending_of(const char * path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!dot || (slash && dot < slash)) return ENDING_OTHER;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(dot + 1, known[i].text) == 0) return known[i].ending;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (strcasecmp(dot + 1, foreign[i]) == 0) return ENDING_FOREIGN;
    return ENDING_OTHER;
}
