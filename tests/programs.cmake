# The programs as a user runs them, also on the real MiniLM that real-model.sh leaves; MRA_TEST_LONG=1 runs 100,000 lines.
if (TARGET mra-embed)
    add_executable(program-check ${CMAKE_CURRENT_LIST_DIR}/program-check.c)
    ggml_mra_target_options(program-check)
    target_compile_definitions(program-check PRIVATE _GNU_SOURCE)
    target_link_libraries(program-check PRIVATE mra-harness gguf-edit PkgConfig::CJSON m)
    set_target_properties(program-check PROPERTIES LINKER_LANGUAGE CXX)
    add_library(fail-strdup MODULE ${CMAKE_CURRENT_LIST_DIR}/fail-strdup.c) # beside program-check, which is how test-programs.sh finds it
    set_target_properties(fail-strdup PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    add_executable(test-real ${CMAKE_CURRENT_LIST_DIR}/test-real.c)
    ggml_mra_target_options(test-real)
    target_link_libraries(test-real PRIVATE mra-stream)
    set_target_properties(test-real PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME test-real COMMAND test-real)
    foreach(part basics streams inputs failures formats endings calibrate studies)
        add_test(NAME programs-${part} COMMAND ${CMAKE_CURRENT_LIST_DIR}/test-programs.sh ${part} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_CURRENT_LIST_DIR}/golden
            ${CMAKE_CURRENT_BINARY_DIR}/programs-${part} $<TARGET_FILE:program-check>)
        set_tests_properties(programs-${part} PROPERTIES TIMEOUT 300)
    endforeach()
    if (Python3_FOUND) # skipped where there is no chromium
        add_test(NAME inspect-page COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_inspect_page.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
        set_tests_properties(inspect-page PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
    endif()
    add_test(NAME programs-minilm COMMAND ${CMAKE_CURRENT_LIST_DIR}/test-programs.sh minilm ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_CURRENT_LIST_DIR}/golden
        ${CMAKE_BINARY_DIR}/demo $<TARGET_FILE:program-check>)
    set_tests_properties(programs-minilm PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 FIXTURES_REQUIRED minilm
        ENVIRONMENT MRA_TEST_MINILM=${CMAKE_BINARY_DIR}/demo/test-f16.gguf)
endif()
