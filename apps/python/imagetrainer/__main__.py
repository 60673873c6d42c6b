import imagetrainer

imagetrainer.main()
