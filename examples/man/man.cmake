# Man pages and completion for bash, zsh and fish of ${mra_programs}, all made from --help.
if (CMAKE_CROSSCOMPILING) # the programs do not run here
    return()
endif()
set(mra_man ${CMAKE_CURRENT_LIST_DIR})
set(mra_out ${CMAKE_CURRENT_BINARY_DIR})
set(mra_pages "")
set(mra_files "")
foreach(program ${mra_programs})
    add_custom_command(OUTPUT ${mra_out}/${program}.1
        COMMAND ${mra_man}/man.sh $<TARGET_FILE:${program}> ${PROJECT_VERSION} > ${mra_out}/${program}.1
        DEPENDS ${program} ${mra_man}/man.sh VERBATIM)
    add_custom_command(OUTPUT ${mra_out}/${program}.fish
        COMMAND ${mra_man}/completion.sh fish $<TARGET_FILE:${program}> > ${mra_out}/${program}.fish
        DEPENDS ${program} ${mra_man}/completion.sh VERBATIM)
    list(APPEND mra_pages ${mra_out}/${program}.1 ${mra_out}/${program}.fish)
    list(APPEND mra_files $<TARGET_FILE:${program}>)
    install(FILES ${mra_out}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${mra_out}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    # bash-completion loads a file named after the program
    install(FILES ${mra_out}/mra.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program})
endforeach()
foreach(shell bash zsh)
    add_custom_command(OUTPUT ${mra_out}/mra.${shell} COMMAND ${mra_man}/completion.sh ${shell} ${mra_files} > ${mra_out}/mra.${shell}
        DEPENDS ${mra_programs} ${mra_man}/completion.sh VERBATIM)
    list(APPEND mra_pages ${mra_out}/mra.${shell})
endforeach()
install(FILES ${mra_out}/mra.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _mra)
add_custom_target(mra-man ALL DEPENDS ${mra_pages})
add_dependencies(mra-programs mra-man) # so that what `make demo` built can be installed
