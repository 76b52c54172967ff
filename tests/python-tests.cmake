# Python tests of the converter and of the numpy references, in a virtual environment with convert/requirements.txt.
# The environment is made by a test of its own, so that a build without network only fails these tests.
find_package(Python3 3.10 COMPONENTS Interpreter)
if (Python3_FOUND)
    set(venv ${CMAKE_BINARY_DIR}/venv) # make demo uses it too
    add_test(NAME python-environment
        COMMAND ${PROJECT_SOURCE_DIR}/.ci/pip-install ${venv} ${PROJECT_SOURCE_DIR}/convert/requirements.txt)
    set_tests_properties(python-environment PROPERTIES FIXTURES_SETUP python TIMEOUT 600)
    foreach(name convert convert_vocab convert_errors fetch peers reference supply)
        add_test(NAME python-${name} COMMAND ${venv}/bin/python -B ${PROJECT_SOURCE_DIR}/tests/test_${name}.py)
        set_tests_properties(python-${name} PROPERTIES FIXTURES_REQUIRED python TIMEOUT 300)
    endforeach()
    add_test(NAME python-convert_tokenizer
        COMMAND ${venv}/bin/python -B ${PROJECT_SOURCE_DIR}/tests/test_convert_tokenizer.py $<TARGET_FILE:tokenizer-pipe>)
    set_tests_properties(python-convert_tokenizer PROPERTIES FIXTURES_REQUIRED python TIMEOUT 300)
    if (TARGET mra-embed)
        add_test(NAME python-convert_programs
            COMMAND ${venv}/bin/python -B ${PROJECT_SOURCE_DIR}/tests/test_convert_programs.py $<TARGET_FILE_DIR:mra-embed>)
        foreach(name tag token_heads)
            add_test(NAME python-${name} COMMAND ${venv}/bin/python -B ${PROJECT_SOURCE_DIR}/tests/test_${name}.py $<TARGET_FILE_DIR:mra-tag>)
            set_tests_properties(python-${name} PROPERTIES FIXTURES_REQUIRED python TIMEOUT 300)
        endforeach()
        set_tests_properties(python-convert_programs PROPERTIES FIXTURES_REQUIRED python TIMEOUT 300)
        add_test(NAME python-eval COMMAND ${venv}/bin/python -B ${PROJECT_SOURCE_DIR}/tests/test_eval.py ${CMAKE_BINARY_DIR})
        set_tests_properties(python-eval PROPERTIES FIXTURES_REQUIRED python TIMEOUT 300)
    endif()
endif()
