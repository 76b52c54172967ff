# ggml-mra.pc and mra-encoder.pc. Written while installing, when the prefix is known: `cmake --install --prefix` may differ from the
# prefix of the configuration. Plain `pkg-config --libs` is enough to link with shared and with static libraries; for the latter what
# they need in turn stands in Libs.
set(pc_ggml "-lggml -lggml-base")
if (NOT GGML_BACKEND_DL) # else the CPU backend is loaded at run time
    set(pc_ggml "-lggml -lggml-cpu -lggml-base")
endif()
if (ggml_FOUND) # an installed ggml may have a prefix of its own
    get_filename_component(pc_ggml_lib "${GGML_LIBRARY}" DIRECTORY)
    set(pc_ggml "-L${pc_ggml_lib} ${pc_ggml}")
    set(pc_ggml_include " -I${GGML_INCLUDE_DIR}")
endif()
set(pc_system "-lstdc++ -lpthread -ldl")
if (GGML_MRA_CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(pc_system "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt ${pc_system}")
endif()
if (BUILD_SHARED_LIBS)
    set(pc_libs "${pc_ggml} -lm")
    set(pc_libs_private "${pc_system}")
    set(pc_requires "")
    set(pc_requires_private "libutf8proc")
else()
    set(pc_libs "${pc_ggml} ${pc_system} -lm")
    set(pc_libs_private "")
    set(pc_requires ", libutf8proc")
    set(pc_requires_private "")
endif()

function(mra_pc name)
    set(CMAKE_INSTALL_PREFIX "@CMAKE_INSTALL_PREFIX@") # all but the prefix now
    configure_file(cmake/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc.in @ONLY)
    install(CODE "configure_file(\"${CMAKE_CURRENT_BINARY_DIR}/${name}.pc.in\" \"${CMAKE_CURRENT_BINARY_DIR}/${name}.pc\" @ONLY)")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
mra_pc(ggml-mra)
mra_pc(mra-encoder)
