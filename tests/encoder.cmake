# The encoder runtime against goldens of transformers, and against damaged files.
add_library(gguf-edit STATIC ${CMAKE_CURRENT_LIST_DIR}/gguf-edit.c)
ggml_mra_target_options(gguf-edit)
target_link_libraries(gguf-edit PUBLIC ggml-mra)
find_package(Threads REQUIRED)

function(mra_encoder_test name)
    add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
    ggml_mra_target_options(${name})
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_link_libraries(${name} PRIVATE mra-harness mra-encoder gguf-edit Threads::Threads)
    add_test(NAME ${name} COMMAND ${name} ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()

mra_encoder_test(test-encoder ${CMAKE_CURRENT_LIST_DIR}/golden/models)
