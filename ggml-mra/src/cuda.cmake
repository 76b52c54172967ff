# The CUDA kernels, in ggml-mra. ggml's own CUDA backend is not needed to build: a device is found through ggml's registry at run time.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/cuda-architectures.cmake)
enable_language(CUDA)
message(STATUS "ggml-mra: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")

file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cu)
add_library(mra-cuda OBJECT ${cuda_sources})
set_target_properties(mra-cuda PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
set_target_properties(ggml-mra PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}") # it was made before the language
target_compile_options(mra-cuda PRIVATE -Xcompiler=-Wall $<$<BOOL:${GGML_MRA_FATAL_WARNINGS}>:-Werror=all-warnings>)

target_sources(ggml-mra PRIVATE exec-cuda.c $<TARGET_OBJECTS:mra-cuda>)
target_compile_definitions(ggml-mra PRIVATE GGML_MRA_CUDA)
target_include_directories(ggml-mra PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
# One CUDA runtime in a process: ggml's. Without ggml's CUDA backend the static one: programs start, and say what is missing, on a machine
# without CUDA.
if ((TARGET ggml-cuda OR TARGET ggml::ggml-cuda) AND NOT GGML_STATIC)
    target_link_libraries(ggml-mra PUBLIC CUDA::cudart)
else()
    target_link_libraries(ggml-mra PUBLIC CUDA::cudart_static)
endif()
