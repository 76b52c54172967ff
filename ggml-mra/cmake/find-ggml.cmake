# Where ggml comes from, in this order:
#   1. a target `ggml` the parent project already has
#   2. -DGGML_MRA_GGML_DIR=<ggml source tree>
#   3. find_package(ggml)
#   4. the source inside a PyPI sdist, fetched with pip and checked by its SHA-256 (GGML_MRA_FETCH_GGML=ON)
# Result: interface target ggml-mra-ggml; GGML_MRA_GGML_SRC is the source tree, empty for an installed ggml.

set(GGML_MRA_GGML_DIR "" CACHE PATH "ggml source tree to build with")
option(GGML_MRA_FETCH_GGML "fetch ggml's source with pip where it is not found" ON)
option(GGML_MRA_FIND_GGML "use an installed ggml where there is one" ON)

set(GGML_MRA_SDIST_NAME   "ggml-python")
set(GGML_MRA_SDIST_VER    "0.0.45") # holds ggml 0.15.3
set(GGML_MRA_SDIST_SHA256 "10aac52075cf3c7ef2b00d6c35b1c23f7b018dbeff8ae8df67339b4be1166f05")

add_library(ggml-mra-ggml INTERFACE)
set(GGML_MRA_GGML_SRC "")

# sets OUT to a ggml source tree under the build folder; a second run finds it there and needs no network
function(ggml_mra_fetch OUT)
    set(dir ${CMAKE_BINARY_DIR}/_deps)
    file(GLOB tree ${dir}/ggml_python-${GGML_MRA_SDIST_VER}/vendor/ggml/CMakeLists.txt)
    if (NOT tree)
        find_package(Python3 REQUIRED COMPONENTS Interpreter)
        if (DEFINED ENV{MRA_OFFLINE}) # a folder of .ci/prepare-offline
            message(STATUS "ggml-mra: ${GGML_MRA_SDIST_NAME} ${GGML_MRA_SDIST_VER} from $ENV{MRA_OFFLINE}")
            set(rc 0)
            set(log "It is not in the folder $ENV{MRA_OFFLINE} (MRA_OFFLINE).")
            file(GLOB sdist $ENV{MRA_OFFLINE}/ggml_python-${GGML_MRA_SDIST_VER}.tar.gz)
            if (sdist)
                file(COPY ${sdist} DESTINATION ${dir}/sdist)
            endif()
        else()
            message(STATUS "ggml-mra: fetching ${GGML_MRA_SDIST_NAME} ${GGML_MRA_SDIST_VER}")
            execute_process(
                COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --disable-pip-version-check --no-deps
                        --no-binary ${GGML_MRA_SDIST_NAME} -d ${dir}/sdist ${GGML_MRA_SDIST_NAME}==${GGML_MRA_SDIST_VER}
                RESULT_VARIABLE rc OUTPUT_VARIABLE log ERROR_VARIABLE log)
        endif()
        file(GLOB sdist ${dir}/sdist/ggml_python-${GGML_MRA_SDIST_VER}.tar.gz)
        if (rc OR NOT sdist)
            message(FATAL_ERROR "ggml-mra: could not get ${GGML_MRA_SDIST_NAME}==${GGML_MRA_SDIST_VER}.\n${log}\n"
                "Install ggml, or give its source tree: -DGGML_MRA_GGML_DIR=<path>")
        endif()
        file(SHA256 ${sdist} sum)
        if (NOT sum STREQUAL GGML_MRA_SDIST_SHA256)
            file(REMOVE ${sdist})
            message(FATAL_ERROR "ggml-mra: ${sdist} has SHA-256 ${sum}, expected ${GGML_MRA_SDIST_SHA256}")
        endif()
        file(ARCHIVE_EXTRACT INPUT ${sdist} DESTINATION ${dir} PATTERNS "*/vendor/ggml/*")
    endif()
    set(${OUT} ${dir}/ggml_python-${GGML_MRA_SDIST_VER}/vendor/ggml PARENT_SCOPE)
endfunction()

if (NOT TARGET ggml AND NOT GGML_MRA_GGML_DIR AND GGML_MRA_FIND_GGML)
    # ggml's package sets every variable of the build it came from whose name starts with GGML_, ours among them if that was a build of ours
    get_cmake_property(names VARIABLES)
    list(FILTER names INCLUDE REGEX "^GGML_MRA_")
    foreach(name ${names})
        set(kept_${name} "${${name}}")
    endforeach()
    find_package(ggml QUIET CONFIG)
    get_cmake_property(all VARIABLES)
    list(FILTER all INCLUDE REGEX "^GGML_MRA_")
    foreach(name ${all})
        unset(${name})
    endforeach()
    foreach(name ${names})
        set(${name} "${kept_${name}}")
    endforeach()
    if (ggml_FOUND)
        message(STATUS "ggml-mra: ggml ${GGML_VERSION} from ${ggml_DIR}")
        # ggml::all is empty with GGML_BACKEND_DL, and only the backend targets carry the include folder: name both
        target_link_libraries(ggml-mra-ggml INTERFACE ggml::ggml)
        target_include_directories(ggml-mra-ggml INTERFACE ${GGML_INCLUDE_DIR})
        if (NOT GGML_SHARED_LIB)
            target_link_libraries(ggml-mra-ggml INTERFACE stdc++) # a static ggml holds C++
        endif()
    endif()
endif()

if (NOT ggml_FOUND)
    if (NOT TARGET ggml)
        set(tree "${GGML_MRA_GGML_DIR}")
        if (NOT tree)
            if (NOT GGML_MRA_FETCH_GGML)
                message(FATAL_ERROR "ggml-mra: no ggml found: install it, or give its source tree: -DGGML_MRA_GGML_DIR=<path>")
            endif()
            ggml_mra_fetch(tree)
        elseif (NOT EXISTS ${tree}/include/ggml.h)
            message(FATAL_ERROR "ggml-mra: GGML_MRA_GGML_DIR=${tree} is not a ggml source tree (no include/ggml.h)")
        endif()
        set(GGML_BUILD_TESTS    OFF CACHE BOOL "" FORCE)
        set(GGML_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
        set(GGML_CCACHE         OFF CACHE BOOL "")
        set(CMAKE_POSITION_INDEPENDENT_CODE ON)    # the Python package's library has it inside
        set(GGML_NATIVE         ON  CACHE BOOL "") # this machine's instruction set
        set(GGML_LLAMAFILE      ON  CACHE BOOL "") # 2.4x on F32 and F16 products; off by default outside llama.cpp
        set(GGML_OPENMP         OFF CACHE BOOL "") # ggml's own thread pool: no run-time library to install
        set(GIT_EXE "" CACHE INTERNAL "") # ggml would name our commit as its own, and be compiled again after each
        if (GGML_CUDA)
            include(${CMAKE_CURRENT_LIST_DIR}/cuda-architectures.cmake)
            set(GGML_CUDA_NO_VMM ON CACHE BOOL "") # the driver's library is not linked: programs start where there is none, and use the CPU
        endif()
        # messages of a folder that is not ours are noise, except errors
        set(level "${CMAKE_MESSAGE_LOG_LEVEL}")
        set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
        add_subdirectory(${tree} ${CMAKE_BINARY_DIR}/ggml)
        set(CMAKE_MESSAGE_LOG_LEVEL "${level}")
        # asserts of ggml's end a process, some of them because a model's numbers are NaN or huge: not in a build for debugging or fuzzing either
        foreach(target ggml ggml-base ggml-cpu)
            target_compile_definitions(${target} PRIVATE $<$<NOT:$<OR:$<CONFIG:Release>,$<CONFIG:RelWithDebInfo>,$<CONFIG:MinSizeRel>>>:NDEBUG>)
        endforeach()
        # gcc before 12.4 and 13.3 (its bug 114098) drops stores to the tile configuration: ggml's AMX products would be illegal instructions
        if (TARGET ggml-cpu AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
            set_property(SOURCE ${tree}/src/ggml-cpu/amx/mmq.cpp TARGET_DIRECTORY ggml-cpu APPEND PROPERTY COMPILE_OPTIONS -fno-tree-dse -fno-dse)
        endif()
    endif()
    get_target_property(GGML_MRA_GGML_SRC ggml SOURCE_DIR)
    get_filename_component(GGML_MRA_GGML_SRC ${GGML_MRA_GGML_SRC} DIRECTORY)
    message(STATUS "ggml-mra: ggml source tree ${GGML_MRA_GGML_SRC}")
    target_link_libraries(ggml-mra-ggml INTERFACE ggml)
endif()
add_custom_target(mra-dependencies) # what is compiled and not ours
if (GGML_MRA_GGML_SRC)
    add_dependencies(mra-dependencies ggml)
endif()
