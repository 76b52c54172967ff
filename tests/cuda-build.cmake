# Configures, builds and links with -DGGML_MRA_CUDA=ON for one architecture, against the ggml that this build uses; ggml's own CUDA backend
# is not part of it. Then asks for a device: there is none in such a ggml, and the program says so.
# cmake -DBUILD=<build folder> -DSOURCE=<project> -DCC=<compiler> -DCXX=<compiler> -DIMPL=<folder of ggml-backend-impl.h> -DGGML=<ggml_DIR,
# if installed> -P cuda-build.cmake
find_program(NVCC nvcc PATHS $ENV{CUDA_PATH}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if (NOT NVCC)
    message("skipped: no nvcc")
    return()
endif()
set(root ${BUILD}/cuda-build)
file(REMOVE_RECURSE ${root})

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

if (NOT GGML) # built here: as it would be installed
    run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${root}/usr)
    file(GLOB_RECURSE config ${root}/usr/ggml-config.cmake)
    get_filename_component(GGML ${config} DIRECTORY)
endif()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${root}/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CUDA_COMPILER=${NVCC}
    -Dggml_DIR=${GGML} -DGGML_MRA_GGML_IMPL_DIR=${IMPL} -DGGML_MRA_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=80 -DGGML_MRA_FATAL_WARNINGS=ON)
run(${CMAKE_COMMAND} --build ${root}/build --target mra-test-cuda)
execute_process(COMMAND ${root}/build/bin/mra-test-cuda RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
if (NOT rc EQUAL 77 OR NOT out MATCHES "skipped: ggml was built without CUDA")
    message(FATAL_ERROR "mra-test-cuda (${rc}): ${out}")
endif()
message(STATUS "nvcc, sm_80: built, linked and started: ${out}")
