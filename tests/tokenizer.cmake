# Tokenizers against goldens of Hugging Face's. tokenizer-pipe is for golden/fuzz_tokenizers.py.
foreach(name test-tokenizer test-tokenizer-vocab tokenizer-pipe)
    add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer-file.c
                   ${CMAKE_CURRENT_LIST_DIR}/../ggml-mra/src/error.c)
    target_link_libraries(${name} PRIVATE mra-tokenizer)
    ggml_mra_target_options(${name})
endforeach()

add_test(NAME tokenizer COMMAND test-tokenizer ${CMAKE_CURRENT_LIST_DIR}/golden/tokenizer)
add_test(NAME tokenizer-vocab COMMAND test-tokenizer-vocab)
set_tests_properties(tokenizer PROPERTIES TIMEOUT 120)
