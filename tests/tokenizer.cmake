# Tokenizers against goldens of Hugging Face's. tokenizer-pipe is for test_convert_tokenizer.py and golden/fuzz_tokenizers.py.
foreach(name test-tokenizer test-tokenizer-vocab)
    add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer-file.c
                   ${CMAKE_CURRENT_LIST_DIR}/../ggml-mra/src/error.c)
    target_link_libraries(${name} PRIVATE mra-tokenizer)
    ggml_mra_target_options(${name})
endforeach()
add_executable(tokenizer-pipe ${CMAKE_CURRENT_LIST_DIR}/tokenizer-pipe.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer-file.c)
target_link_libraries(tokenizer-pipe PRIVATE mra-encoder)
ggml_mra_target_options(tokenizer-pipe)

add_test(NAME tokenizer COMMAND test-tokenizer ${CMAKE_CURRENT_LIST_DIR}/golden/tokenizer)
add_test(NAME tokenizer-vocab COMMAND test-tokenizer-vocab)
set_tests_properties(tokenizer PROPERTIES TIMEOUT 120)
