//! EGL's answers, from a fake.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use gpu_interop_core::{Error, ErrorKind};

use super::{CONTEXT_MAJOR_VERSION, CONTEXT_MINOR_VERSION, Egl, NONE, Object};

/// `EGL_BAD_ALLOC`, the error of each call that fails.
const BAD_ALLOC: c_int = 0x3003;
const SURFACELESS: &str = "EGL_KHR_surfaceless_context";

/// What the fake answers, and the arguments that it was given.
#[derive(Debug, Default)]
struct Fake {
    extensions: CString,
    fails: &'static str,
    has_no_configuration: bool,
    /// The configuration and the attributes of each context.
    contexts: Vec<(usize, Vec<c_int>)>,
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

fn object(number: usize) -> Object {
    std::ptr::without_provenance_mut(number)
}

fn succeeds(function: &str) -> bool {
    FAKE.with_borrow(|fake| fake.fails != function)
}

unsafe extern "C" fn no_address(_: *const c_char) -> *const c_void {
    std::ptr::null()
}
unsafe extern "C" fn bad_alloc() -> c_int {
    BAD_ALLOC
}
unsafe extern "C" fn extensions(_: Object, _: c_int) -> *const c_char {
    FAKE.with_borrow(|fake| fake.extensions.as_ptr())
}
unsafe extern "C" fn initialize(_: Object, _: *mut c_int, _: *mut c_int) -> c_uint {
    succeeds("eglInitialize").into()
}
unsafe extern "C" fn bind(_: c_uint) -> c_uint {
    succeeds("eglBindAPI").into()
}
unsafe extern "C" fn choose(_: Object, _: *const c_int, found: *mut Object, _: c_int, count: *mut c_int) -> c_uint {
    let has = FAKE.with_borrow(|fake| !fake.has_no_configuration);
    // SAFETY: the caller has space for one configuration and the count.
    unsafe {
        *found = object(if has { 7 } else { 0 });
        *count = has.into();
    }
    succeeds("eglChooseConfig").into()
}
unsafe extern "C" fn create(_: Object, config: Object, _: Object, attributes: *const c_int) -> Object {
    // SAFETY: the list ends with `NONE`, by EGL's contract.
    let value = |index| unsafe { *attributes.add(index) };
    let given = (0..).map(value).take_while(|attribute| *attribute != NONE).collect();
    FAKE.with_borrow_mut(|fake| fake.contexts.push((config.addr(), given)));
    object(usize::from(succeeds("eglCreateContext")))
}
unsafe extern "C" fn destroy(_: Object, _: Object) -> c_uint {
    1
}
unsafe extern "C" fn make_current(_: Object, _: Object, _: Object, _: Object) -> c_uint {
    succeeds("eglMakeCurrent").into()
}
unsafe extern "C" fn nothing() -> Object {
    object(0)
}
unsafe extern "C" fn api() -> c_uint {
    0
}
unsafe extern "C" fn no_surface(_: c_int) -> Object {
    object(0)
}
unsafe extern "C" fn devices(space: c_int, list: *mut Object, count: *mut c_int) -> c_uint {
    if space > 0 {
        // SAFETY: the caller has space for one.
        unsafe { *list = object(3) };
    }
    // SAFETY: valid, by EGL's contract.
    unsafe { *count = 1 };
    let name = if space > 0 { "the list of eglQueryDevicesEXT" } else { "eglQueryDevicesEXT" };
    succeeds(name).into()
}
unsafe extern "C" fn display(_: c_uint, _: Object, _: *const c_int) -> Object {
    object(usize::from(succeeds("eglGetPlatformDisplayEXT")))
}

fn egl(fake: Fake) -> Egl {
    FAKE.set(fake);
    Egl {
        get_proc_address: no_address,
        get_error: bad_alloc,
        query_string: extensions,
        initialize,
        bind_api: bind,
        query_api: api,
        choose_config: choose,
        create_context: create,
        destroy_context: destroy,
        make_current,
        get_current_context: nothing,
        get_current_display: nothing,
        get_current_surface: no_surface,
        query_devices: devices,
        get_platform_display: display,
    }
}

fn with_extensions(names: &[&str]) -> Fake {
    Fake { extensions: CString::new(names.join(" ")).expect("no NUL"), ..Fake::default() }
}

/// The whole way to a context that is current.
fn context(egl: &Egl) -> Result<Object, Error> {
    let [device] = egl.devices()?[..] else { panic!("one device") };
    assert_eq!(device, object(3));
    let display = egl.display(device)?;
    let context = egl.context(display, (4, 5))?;
    egl.make_current(display, context).map(|()| context)
}

#[test]
fn a_display_without_the_extension_is_refused_by_its_name() {
    for names in [&[][..], &["EGL_KHR_no_config_context"], &["EGL_KHR_surfaceless_contexts", "EGL_KHR_surfaceless"]] {
        let error = context(&egl(with_extensions(names))).expect_err("no contexts without surfaces");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(SURFACELESS), "{error}");
        assert!(FAKE.with_borrow(|fake| fake.contexts.is_empty()), "{names:?}");
    }
}

#[test]
fn a_configuration_is_chosen_where_contexts_need_one() {
    let cases = [
        (&[SURFACELESS][..], 7),
        (&["EGL_KHR_no_config_context", SURFACELESS], 0),
        (&[SURFACELESS, "EGL_MESA_configless_context"], 0),
    ];
    for (names, config) in cases {
        assert!(context(&egl(with_extensions(names))).is_ok(), "{names:?}");
        let created = FAKE.take().contexts;
        let [(given, attributes)] = &created[..] else { panic!("one context: {created:?}") };
        assert_eq!(*given, config, "{names:?}");
        assert_eq!(attributes[..4], [CONTEXT_MAJOR_VERSION, 4, CONTEXT_MINOR_VERSION, 5]);
    }
    let fake = Fake { has_no_configuration: true, ..with_extensions(&[SURFACELESS]) };
    let error = context(&egl(fake)).expect_err("no configuration");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("no configuration"), "{error}");
}

#[test]
fn each_failure_has_its_function_and_its_code() {
    let functions = [
        "eglQueryDevicesEXT",
        "the list of eglQueryDevicesEXT",
        "eglGetPlatformDisplayEXT",
        "eglInitialize",
        "eglBindAPI",
        "eglChooseConfig",
        "eglCreateContext",
        "eglMakeCurrent",
    ];
    for fails in functions {
        let error = context(&egl(Fake { fails, ..with_extensions(&[SURFACELESS]) })).expect_err(fails);
        assert_eq!(error.kind(), ErrorKind::Driver, "{fails}");
        assert!(fails.ends_with(error.operation()), "{fails}: {error}");
        assert!(error.to_string().contains("0x3003"), "{fails}: {error}");
    }
}

#[test]
fn lists_of_extensions_are_split_at_spaces() {
    // SAFETY: null, or NUL-terminated.
    let split = |text: Option<&CStr>| unsafe { super::split_list(text.map_or(std::ptr::null(), CStr::as_ptr)) };
    assert_eq!(split(Some(c"EGL_A EGL_B  EGL_C ")), ["EGL_A", "EGL_B", "EGL_C"]);
    assert!(split(Some(c"")).is_empty() && split(None).is_empty());
}
