<?php
/**
 * The rules for shops (WooCommerce, Easy Digital Downloads).
 *
 * Invariant: cart, checkout and account are personal, and so is every page if prices follow from
 * the visitor's address. A change of stock purges the product and its lists. `Visitor` knows the
 * cookies of shops.
 */

declare(strict_types=1);

namespace Petasos;

final class Shop
{
    /** Parameters with which a GET request changes a cart or an order. */
    private const WRITES = ['add-to-cart', 'remove_item', 'undo_item', 'wc-ajax', 'wc-api', 'edd_action'];

    public static function begin(Purges $purges): void
    {
        $changed = static function ($product) use ($purges): void {
            $id = is_object($product) && method_exists($product, 'get_id') ? (int) $product->get_id() : (is_numeric($product) ? (int) $product : 0);
            if ($id > 0) {
                // The shop shows a variation on the page of its product.
                $parent = (int) wp_get_post_parent_id($id);
                $purges->add("post-$id", 'type-product', ...($parent > 0 ? ["post-$parent"] : []));
            }
        };
        // WooCommerce writes the stock past WordPress' functions for fields of posts.
        $hooks = [
            'woocommerce_updated_product_stock', 'woocommerce_product_set_stock', 'woocommerce_variation_set_stock',
            'woocommerce_product_set_stock_status', 'woocommerce_variation_set_stock_status',
        ];
        foreach ($hooks as $hook) {
            add_action($hook, $changed, PHP_INT_MAX);
        }
    }

    /** Whether the current page is for one customer only. */
    public static function isPersonal(): bool
    {
        foreach (['is_cart', 'is_checkout', 'is_account_page', 'is_wc_endpoint_url', 'edd_is_checkout'] as $asks) {
            if (function_exists($asks) && $asks()) {
                return true;
            }
        }
        return array_intersect(self::WRITES, array_keys($_GET)) !== [] || self::pricesByAddress();
    }

    /**
     * Whether the shop computes prices from the visitor's address without telling caches.
     * WooCommerce calls the setting that is safe "Geolocate (with page caching support)".
     */
    public static function pricesByAddress(): bool
    {
        return function_exists('WC') && get_option('woocommerce_default_customer_address') === 'geolocation';
    }
}
