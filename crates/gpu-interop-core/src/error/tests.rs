use super::*;

#[test]
fn display_names_operation_code_and_values() {
    let error = Error::new(ErrorKind::ImportRejected, "cuImportExternalMemory", "the driver rejected the handle")
        .with_code(999, Some("CUDA_ERROR_UNKNOWN".into()))
        .with_backend("cuda")
        .with_context("size", "4096 bytes");
    assert_eq!(
        error.to_string(),
        "cuImportExternalMemory: import rejected: the driver rejected the handle \
         [driver returned: CUDA_ERROR_UNKNOWN (999); backend: cuda; size: 4096 bytes]"
    );
}

#[test]
fn debug_is_the_message_and_its_alternate_form_has_the_fields() {
    let error = ImportError::new(Error::invalid("op", "size is 0").with_context("size", 0), 17);
    assert_eq!(format!("{error:?}"), "op: invalid argument: size is 0 [size: 0]");
    assert_eq!(error.to_string(), format!("{error:?}"));
    let fields = format!("{error:#?}");
    assert!(fields.contains("request: 17") && fields.contains("operation: \"op\""), "{fields}");
}

#[test]
fn an_error_without_values_has_no_brackets() {
    assert_eq!(Error::invalid("op", "size is 0").to_string(), "op: invalid argument: size is 0");
}

#[test]
fn the_source_is_reachable() {
    let error = Error::new(ErrorKind::System, "mmap", "no").with_source(std::io::Error::from_raw_os_error(12));
    assert_eq!(format!("{error:?}").lines().count(), 2, "{error:?}");
    let source = std::error::Error::source(&error).expect("the source was recorded");
    assert_eq!(source.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error), Some(12));
}

#[test]
fn the_first_backend_and_device_are_kept() {
    let error = Error::invalid("op", "x").with_backend("inner").with_backend("outer");
    assert_eq!(error.backend(), Some("inner"));
}
