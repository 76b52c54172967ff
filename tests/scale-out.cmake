# embed_shards.py without Ray, in a venv with pyarrow; `make test-ray` runs it on a Ray cluster whose workers and nodes die.
if (TARGET mra-embed AND Python3_FOUND)
    set(scale_out ${CMAKE_BINARY_DIR}/scale-out)
    add_test(NAME scale-out COMMAND sh -c "'${PROJECT_SOURCE_DIR}/.ci/pip-install' '${scale_out}' '${PROJECT_SOURCE_DIR}/examples/scale-out/requirements.txt' \
&& exec '${scale_out}/bin/python' -B '${CMAKE_CURRENT_LIST_DIR}/test_scale_out.py' '$<TARGET_FILE_DIR:mra-embed>'")
    set_tests_properties(scale-out PROPERTIES TIMEOUT 600)
endif()
