<?php
/**
 * The functions of WordPress' object cache API.
 *
 * Invariant: each function accepts arguments of any type from WordPress and plug-ins, and calls the
 * one `ObjectCache` in `$wp_object_cache`.
 */

use Petasos\Objects\ObjectCache;
use Petasos\Objects\Router;
use Petasos\Probe;
use Petasos\Settings;

function wp_cache_init()
{
    global $wp_object_cache, $blog_id, $table_prefix;
    $map = Probe::passes(Probe::OBJECTS) ? ['*' => 'none'] : Settings::objects();
    $site = Settings::text('PETASOS_OBJECTS_PREFIX', Settings::text('WP_CACHE_KEY_SALT'));
    $wp_object_cache = new ObjectCache(
        new Router($map),
        substr(hash('sha256', $site . '|' . DB_NAME . '|' . DB_HOST . '|' . ($table_prefix ?? '')), 0, 16),
        (int) ($blog_id ?? 1),
        is_multisite()
    );
    if (function_exists('add_action')) {
        add_action('admin_notices', 'petasos_objects_notice');
    }
}

/** Shows the administrator a notice about failed object servers, once on each page. */
function petasos_objects_notice()
{
    global $wp_object_cache;
    $failures = $wp_object_cache instanceof ObjectCache ? $wp_object_cache->router->failures() : [];
    if ($failures !== [] && current_user_can('manage_options')) {
        printf(
            '<div class="notice notice-error petasos-objects"><p>%s</p></div>',
            esc_html('Petasos: objects are kept for one request only, since a server is gone. ' . implode('; ', $failures))
        );
    }
}

/** A valid key for the cache, or null. */
function petasos_objects_key($key)
{
    return is_int($key) || is_string($key) ? $key : (is_scalar($key) ? (string) $key : null);
}

function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key !== null && $wp_object_cache->add($key, $data, (string) $group, (int) $expire);
}

function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
{
    $done = [];
    foreach ($data as $key => $value) {
        $done[$key] = wp_cache_add($key, $value, $group, $expire);
    }
    return $done;
}

function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key !== null && $wp_object_cache->replace($key, $data, (string) $group, (int) $expire);
}

function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key !== null && $wp_object_cache->set($key, $data, (string) $group, (int) $expire);
}

function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
{
    $done = [];
    foreach ($data as $key => $value) {
        $done[$key] = wp_cache_set($key, $value, $group, $expire);
    }
    return $done;
}

function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    global $wp_object_cache;
    $found = false;
    $key = petasos_objects_key($key);
    return $key === null ? false : $wp_object_cache->get($key, (string) $group, (bool) $force, $found);
}

function wp_cache_get_multiple($keys, $group = '', $force = false)
{
    global $wp_object_cache;
    return $wp_object_cache->get_multiple((array) $keys, (string) $group, (bool) $force);
}

function wp_cache_delete($key, $group = '')
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key !== null && $wp_object_cache->delete($key, (string) $group);
}

function wp_cache_delete_multiple(array $keys, $group = '')
{
    $done = [];
    foreach ($keys as $key) {
        $done[$key] = wp_cache_delete($key, $group);
    }
    return $done;
}

function wp_cache_incr($key, $offset = 1, $group = '')
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key === null ? false : $wp_object_cache->incr($key, (int) $offset, (string) $group);
}

function wp_cache_decr($key, $offset = 1, $group = '')
{
    global $wp_object_cache;
    $key = petasos_objects_key($key);
    return $key === null ? false : $wp_object_cache->decr($key, (int) $offset, (string) $group);
}

function wp_cache_flush()
{
    global $wp_object_cache;
    return $wp_object_cache->flush();
}

function wp_cache_flush_runtime()
{
    global $wp_object_cache;
    return $wp_object_cache->flush_runtime();
}

function wp_cache_flush_group($group)
{
    global $wp_object_cache;
    return $wp_object_cache->flush_group((string) $group);
}

function wp_cache_supports($feature)
{
    return in_array(
        $feature,
        ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group'],
        true
    );
}

function wp_cache_close()
{
    return true;
}

function wp_cache_add_global_groups($groups)
{
    global $wp_object_cache;
    $wp_object_cache->add_global_groups(array_map('strval', (array) $groups));
}

function wp_cache_add_non_persistent_groups($groups)
{
    global $wp_object_cache;
    $wp_object_cache->add_non_persistent_groups(array_map('strval', (array) $groups));
}

function wp_cache_switch_to_blog($blog_id)
{
    global $wp_object_cache;
    $wp_object_cache->switch_to_blog((int) $blog_id);
}

function wp_cache_reset()
{
    global $wp_object_cache;
    $wp_object_cache->flush_runtime();
}
