# run(COMMAND ...): ends the script where it fails; else `out` is what it printed
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
    if (rc)
        message(FATAL_ERROR "${ARGN}\nfailed (${rc}):\n${out}")
    endif()
    set(out "${out}" PARENT_SCOPE)
endfunction()
