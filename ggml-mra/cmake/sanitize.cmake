# GGML_MRA_SANITIZE: a list of address, thread, undefined, fuzzer. Compiled into everything, ggml included, so that a damage
# that shows there is seen; but undefined, which is for our own code only: ggml relies on what it reports.
# fuzzer: coverage for libFuzzer (clang), and the targets of tests/fuzz.
set(GGML_MRA_SANITIZE "" CACHE STRING "sanitizers to build with: address, thread, undefined, fuzzer")
set(GGML_MRA_SANITIZE_OPTIONS "") # of our own targets
if (GGML_MRA_SANITIZE)
    add_compile_options(-g -fno-omit-frame-pointer)
    foreach(name ${GGML_MRA_SANITIZE})
        if (name STREQUAL undefined)
            set(GGML_MRA_SANITIZE_OPTIONS -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow)
            add_link_options(-fsanitize=undefined)
        elseif (name STREQUAL fuzzer)
            add_compile_options(-fsanitize=fuzzer-no-link)
            add_link_options(-fsanitize=fuzzer-no-link)
        elseif (name MATCHES "^(address|thread)$")
            add_compile_options(-fsanitize=${name})
            add_link_options(-fsanitize=${name})
        else()
            message(FATAL_ERROR "GGML_MRA_SANITIZE: '${name}' is not address, thread, undefined or fuzzer")
        endif()
    endforeach()
endif()
