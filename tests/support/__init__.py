"""What tests share: exact fingerprints of trees and repositories, and the real command line."""
