# The architectures that CUDA code is compiled for where the user names none, ggml's, too: not those of a GPU in this machine, which may have none.
find_package(CUDAToolkit 11.8 REQUIRED)
if (NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90) # 90: also as PTX, which later devices compile
    if (CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
        list(APPEND CMAKE_CUDA_ARCHITECTURES 100-real 120-real)
    endif()
endif()
