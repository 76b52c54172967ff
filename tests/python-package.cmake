# The Python package: a wheel of the library that this build has, installed and tested. `make test-wheel` compiles everything anew,
# as pip does for a user. The first run fetches ggml-mra/python/tests/requirements.txt.
if (TARGET mra-python AND TARGET mra-embed AND Python3_FOUND)
    add_test(NAME python-package COMMAND ${PROJECT_SOURCE_DIR}/ggml-mra/python/tests/run.sh ${CMAKE_BINARY_DIR} ${Python3_EXECUTABLE} $<TARGET_FILE:mra-python>)
    set_tests_properties(python-package PROPERTIES TIMEOUT 600)
endif()
