# The Debian package, for cpack -G DEB: the program with its configs, completions and manual page, for the CPU. The
# CUDA plugin depends on packages that Debian does not have and is left to `cmake --install`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trainer)
set(CPACK_PACKAGE_VENDOR "The trainer project")
set(CPACK_PACKAGE_CONTACT "The maintainers of trainer <maintainers@trainer.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains image classifiers that a YAML file describes")
set(CPACK_PACKAGE_DESCRIPTION
  "trainer trains, evaluates and applies image classifiers from a config: the\n\
model or a pretrained backbone, the input pipeline, the optimizer and its\n\
schedule. Runs resume bit for bit, over replicas, processes and machines.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
include(CPack)
