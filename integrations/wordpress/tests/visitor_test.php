<?php
/** Requests that may receive a shared page. */

declare(strict_types=1);

use Petasos\Visitor;

$get = ['REQUEST_METHOD' => 'GET'];

return [
    'nobody in particular' => static function () use ($get): void {
        same(Visitor::isAnonymous($get, []), true);
        same(Visitor::isAnonymous(['REQUEST_METHOD' => 'HEAD'], ['_ga' => '1', '_ga_X' => '', 'wp-settings-1' => 'a']), true);
    },
    'other methods' => static function (): void {
        foreach (['POST', 'PUT', 'DELETE', 'OPTIONS', 'get', ''] as $method) {
            same(Visitor::isAnonymous(['REQUEST_METHOD' => $method], []), false, $method);
        }
        same(Visitor::isAnonymous([], []), false);
    },
    'cookies that mean somebody, and those nobody knows' => static function () use ($get): void {
        $names = [
            'wordpress_logged_in_0a', 'wordpress_0a', 'wordpress_sec_0a', 'wp-postpass_0a', 'comment_author_0a',
            'comment_author_email_0a', 'woocommerce_items_in_cart', 'wp_woocommerce_session_0a', 'PHPSESSID', 'anything',
            '_gax', 'wordpress_test_cookie2',
        ];
        foreach ($names as $name) {
            same(Visitor::isAnonymous($get, ['_ga' => '1', $name => '1']), false, $name);
        }
        same(Visitor::isAnonymous($get, [7 => '1']), false, 'a number as a name');
    },
    'harmless cookies of the site' => static function () use ($get): void {
        same(Visitor::isAnonymous($get, ['theme' => 'dark'], ['theme']), true);
        same(Visitor::isAnonymous($get, ['theme-x' => 'dark'], ['theme']), false);
        same(Visitor::isAnonymous($get, ['theme-x' => 'dark'], ['theme-*']), true);
    },
    'credentials' => static function () use ($get): void {
        foreach (['HTTP_AUTHORIZATION', 'REDIRECT_HTTP_AUTHORIZATION', 'PHP_AUTH_USER', 'HTTP_X_WP_NONCE'] as $name) {
            same(Visitor::isAnonymous($get + [$name => 'x'], []), false, $name);
        }
    },
];
