//! Macros for methods that several public types have.

/// Builder methods: `method => field: type of the value, which converts into that of the field`.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $method:ident => $field:ident: $value:ty;)+ }) => {
        impl $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
