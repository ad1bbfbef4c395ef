//! A map that scripts share by reference, like objects in other languages. Passing it to a function
//! copies a pointer, so the caller sees the function's changes.
//!
//! Objects exist for one request. The object cache stores plain copies.

use rhai::{Array, Dynamic, Engine, ImmutableString, Map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A map shared by reference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object(Arc<Mutex<Map>>);

impl Object {
    /// An object with these entries.
    pub(crate) fn from_map(map: Map) -> Self {
        Self(Arc::new(Mutex::new(map)))
    }

    /// The value of `key`, or unit if there is none.
    pub(crate) fn value(&self, key: &str) -> Dynamic {
        self.map().get(key).cloned().unwrap_or(Dynamic::UNIT)
    }

    /// Sets the value of `key`.
    pub(crate) fn set(&self, key: &str, value: Dynamic) {
        self.map().insert(key.into(), value);
    }

    /// Removes every entry.
    pub(crate) fn clear(&self) {
        self.map().clear();
    }

    /// Locks the map. The lock is never held while a script runs, so it cannot deadlock. Ignoring
    /// poison is safe, because the map is always complete.
    fn map(&self) -> MutexGuard<'_, Map> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of `value` that shares no object with it. Objects inside become maps.
pub(crate) fn detached(value: &Dynamic) -> Dynamic {
    if let Some(object) = value.read_lock::<Object>() {
        return detached_map(&object.map()).into();
    }
    if let Some(map) = value.read_lock::<Map>() {
        return detached_map(&map).into();
    }
    if let Some(array) = value.read_lock::<Array>() {
        return array.iter().map(detached).collect::<Array>().into();
    }
    value.clone()
}

/// The approximate size of `value`, in bytes.
pub(crate) fn weight_bytes(value: &Dynamic) -> usize {
    const ENTRY_BYTES: usize = 48;
    if let Some(map) = value.read_lock::<Map>() {
        return map.iter().map(|(key, value)| ENTRY_BYTES + key.len() + weight_bytes(value)).sum();
    }
    if let Some(array) = value.read_lock::<Array>() {
        return array.iter().map(|value| ENTRY_BYTES / 2 + weight_bytes(value)).sum();
    }
    value.read_lock::<ImmutableString>().map_or(ENTRY_BYTES / 3, |text| text.len())
}

fn detached_map(map: &Map) -> Map {
    map.iter().map(|(key, value)| (key.clone(), detached(value))).collect()
}

/// Registers the type for scripts: `object()`, `object(map)`, `o.key`, `o["key"]`, `key in o`, and
/// some methods of maps.
pub(crate) fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<Object>("Object")
        .register_fn("object", Object::default)
        .register_fn("object", Object::from_map)
        .register_indexer_get(|object: &mut Object, key: &str| object.value(key))
        .register_indexer_set(|object: &mut Object, key: &str, value: Dynamic| object.set(key, value))
        .register_fn("contains", |object: &mut Object, key: &str| object.map().contains_key(key))
        .register_fn("keys", |object: &mut Object| -> Array {
            object.map().keys().map(|key| Dynamic::from(ImmutableString::from(key.as_str()))).collect()
        })
        .register_fn("values", |object: &mut Object| -> Array { object.map().values().cloned().collect() })
        .register_fn("len", |object: &mut Object| object.map().len() as i64)
        .register_fn("remove", |object: &mut Object, key: &str| {
            object.map().remove(key).unwrap_or(Dynamic::UNIT)
        })
        .register_fn("push", |object: &mut Object, key: &str, value: Dynamic| {
            let mut map = object.map();
            let list = map.entry(key.into()).or_insert_with(|| Array::new().into());
            if let Some(mut list) = list.write_lock::<Array>() {
                list.push(value);
            }
        })
        .register_fn("to_map", |object: &mut Object| object.map().clone());
}

#[cfg(test)]
mod tests {
    use super::{Object, detached, register, weight_bytes};
    use rhai::{Dynamic, Engine, Map};

    fn evaluate<T: Clone + Send + Sync + 'static>(script: &str) -> T {
        let mut engine = Engine::new();
        register(&mut engine);
        engine.eval(script).unwrap()
    }

    #[test]
    fn functions_change_the_caller_object() {
        assert_eq!(evaluate::<i64>("fn f(o) { o.n = 2; } let o = object(); o.n = 1; f(o); o.n"), 2);
        assert!(evaluate::<bool>(r#"let o = object(#{ a: 1 }); "a" in o && !("b" in o) && o.b == ()"#));
    }

    #[test]
    fn list_in_an_object_grows_in_place() {
        assert_eq!(evaluate::<i64>(r#"let o = object(); o.push("a", 1); o.push("a", 2); o.a.len()"#), 2);
    }

    #[test]
    fn detached_copy_shares_nothing() {
        let inner = Object::default();
        let outer = Object::default();
        outer.set("inner", Dynamic::from(inner.clone()));
        let copy = detached(&Dynamic::from(outer));
        inner.set("late", 1_i64.into());
        let copy = copy.cast::<Map>();
        assert!(copy["inner"].clone().cast::<Map>().is_empty());
        assert!(weight_bytes(&copy.into()) > 0);
    }
}
