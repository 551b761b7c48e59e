# What a project needs to build policies as plugins: included by the package's config, and by the build of the
# program itself, so that both compute the hash of the api headers in the same way.

# schedtwin_api_hash(OUT INCLUDE_DIR): 16 hex digits over names and texts of the headers in policies/api.
function(schedtwin_api_hash out include_dir)
  file(GLOB headers CONFIGURE_DEPENDS ${include_dir}/policies/api/*.h)
  list(SORT headers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
  set(texts)
  foreach(header IN LISTS headers)
    cmake_path(GET header FILENAME name)
    file(SHA256 ${header} digest)
    string(APPEND texts "${name} ${digest}\n")
  endforeach()
  string(SHA256 hash "${texts}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${out} ${hash} PARENT_SCOPE)
endfunction()

# schedtwin_add_policy(NAME FILE...): libNAME.so, for `schedtwin sim --policy ./libNAME.so`. The policy is built
# as the program was, as far as the two share types: compiler, standard, hardening and sanitizers.
function(schedtwin_add_policy name)
  if(NOT ARGN)
    message(FATAL_ERROR "schedtwin_add_policy(${name}): name its source files, too")
  endif()
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  if(NOT compiler STREQUAL schedtwin_COMPILER)
    message(FATAL_ERROR "schedtwin: this project's C++ compiler is ${compiler}, schedtwin was built with "
                        "${schedtwin_COMPILER}; configure a fresh folder with "
                        "-DCMAKE_CXX_COMPILER=${schedtwin_COMPILER_NAME}")
  endif()
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES
    PREFIX lib SUFFIX .so CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${name} PRIVATE ${schedtwin_INCLUDE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${schedtwin_RANDOM123_DIR})
  target_compile_definitions(${name} PRIVATE SCHEDTWIN_API_HASH="${schedtwin_API_HASH}")
  # Without fused multiply-add a digest does not depend on the machine.
  target_compile_options(${name} PRIVATE -ffp-contract=off ${schedtwin_FLAGS})
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${name} PRIVATE -O2)
  endif()
  target_link_options(${name} PRIVATE ${schedtwin_FLAGS})
  if(NOT "${schedtwin_FLAGS}" MATCHES "-fsanitize")  # their runtime is in the program
    target_link_options(${name} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
