# mra-server as its clients see it; the standard library of Python is all they need.
if (TARGET mra-server AND Python3_FOUND)
    foreach(name server server_load server_page)
        string(REPLACE _ - test ${name})
        add_test(NAME ${test} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_${name}.py $<TARGET_FILE_DIR:mra-server>)
        set_tests_properties(${test} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
    endforeach()
endif()
