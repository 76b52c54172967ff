// Errors of ggml-mra: a code and one line of text. Functions that can fail take a nullable `struct mra_error *` last;
// constructors then return NULL, others the status. Nothing in the library prints, exits or aborts on user input.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum mra_status {
    MRA_OK = 0,
    MRA_ERR_ARG,         // a parameter is out of range, or two contradict each other
    MRA_ERR_SHAPE,       // a tensor has the wrong shape, type or layout
    MRA_ERR_IO,          // a file cannot be opened, read or written
    MRA_ERR_FORMAT,      // a file or text is not what it should be
    MRA_ERR_UNSUPPORTED, // valid, but not something this build can do
    MRA_ERR_TOO_LONG,    // more tokens than the model has positions
    MRA_ERR_MEMORY,      // an allocation failed
    MRA_ERR_BACKEND,     // a ggml backend reported a failure
    MRA_ERR_DEVICE,      // there is no such device, or it does not answer
    MRA_ERR_STOPPED,     // the caller's own `stop` function ended the work
};

struct mra_error {
    enum mra_status code;
    char msg[256];
};

// Fills err (if not NULL) and returns code, so that `return mra_fail(err, MRA_ERR_ARG, "n = %d", n);` reads well.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
enum mra_status
mra_fail(struct mra_error * err, enum mra_status code, const char * fmt, ...);

#ifdef __cplusplus
}
#endif
