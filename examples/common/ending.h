// What the ending of an output file's name says of its format.
#pragma once

enum ending {
    ENDING_OTHER, // nothing that is known, or there is none
    ENDING_TEXT,
    ENDING_TSV,
    ENDING_CSV,
    ENDING_JSON,
    ENDING_JSONL,
    ENDING_NPY,
    ENDING_NPZ,
    ENDING_RAW,
    ENDING_FOREIGN, // a format that no program writes: .parquet, .gz
};
enum ending ending_of(const char * path);
